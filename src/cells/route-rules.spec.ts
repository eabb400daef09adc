import { describe, expect, it } from '@jest/globals';
import { changesDefinitions, ruleOf } from './route-rules.ts';

describe('the rule of a route', () => {
  it('is that of its GET for a HEAD', () => {
    expect(ruleOf('HEAD', '/v1/keys/:key')).toEqual({ to: 'key', parameter: 'key' });
  });

  it('of a read model follows from its path', () => {
    expect(ruleOf('GET', '/v1/orders', true)).toEqual({ to: 'read-list' });
    expect(ruleOf('GET', '/v1/orders/open', true)).toEqual({ to: 'read-list' });
    expect(ruleOf('GET', '/v1/orders/:order')).toEqual({ to: 'read', parameter: 'order' });
    expect(ruleOf('GET', '/v1/orders/:order/lines', true)).toEqual({ to: 'read', parameter: 'order' });
  });

  it('requires ?cell= for what has a part in every cell', () => {
    for (const [method, url, lists] of [
      ['GET', '/v1/orders', false],
      ['GET', '/v1/orders/summary', false],
      ['GET', '/v1/orders/summary/:day', true],
      ['POST', '/v1/orders/:order/lines', false],
    ] as const)
      expect([url, ruleOf(method, url, lists)]).toEqual([url, { to: 'named' }]);
  });

  it('says which requests change definitions', () => {
    expect(changesDefinitions('PUT', '/v1/groups/:group')).toBe(true);
    for (const [method, url] of [
      ['GET', '/v1/groups/:group'],
      ['POST', '/v1/groups/:group/poll'],
      ['PUT', '/v1/schedules/:name'],
    ] as const)
      expect(changesDefinitions(method, url)).toBe(false);
  });
});
