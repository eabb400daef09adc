import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { BROKER_MODES } from './broker.ts';
import { kindOf, missingClient } from './kinds.ts';
import { serverAddress } from './server-address.ts';
import { filled, subjectFault, subjectToken } from './template.ts';

describe('the address of a server', () => {
  it.each([
    ['nats://broker.example', { host: 'broker.example', port: 4222, tls: false }],
    ['tls://broker.example:5222', { host: 'broker.example', port: 5222, tls: true }],
    ['nats://[::1]:4222', { host: '::1', port: 4222, tls: false }],
    ['nats://0x7f000001:4222', { host: '127.0.0.1', port: 4222, tls: false }],
    ['nats://2130706433', { host: '127.0.0.1', port: 4222, tls: false }],
  ])('%s is understood', (text, address) => {
    expect(serverAddress(text, 'nats')).toEqual(address);
  });

  it.each([
    ['http://broker.example', /^must be nats:\/\/host:port or tls/],
    ['nats://user:word@broker.example', /^must not contain credentials/],
    ['nats://broker.example:70000', /^must have a port/],
    ['nats://broker.example/path', /^must be nats/],
    ['nats://', /^must be nats/],
    [4222, /^must be nats/],
  ])('%s is refused', (text, fault) => {
    expect(serverAddress(text, 'nats')).toMatch(fault);
  });
});

describe('a subject', () => {
  it.each(['orders', 'orders.{key}', '{type}.{source}.{key}', 'a.b-{key}-c'])('can be %s', (template) => {
    expect(subjectFault(template)).toBeUndefined();
  });

  it.each([
    ['orders.*', /wildcards/],
    ['orders..x', /tokens/],
    ['orders.>', /wildcards/],
    ['$JS.API.STREAM.DELETE.X', /tokens/],
    ['orders {key}', /tokens/],
    ['orders.{id}', /\{id\}; only/],
    ['orders.{key', /brace/],
  ])('cannot be %s', (template, fault) => {
    expect(subjectFault(template)).toMatch(fault);
  });

  it('has the key as one token, different for different keys', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', minLength: 1 }),
        fc.string({ unit: 'grapheme', minLength: 1 }),
        (one, other) => {
          const [a, b] = [subjectToken(one), subjectToken(other)];
          expect(a).toMatch(/^[\x21-\x7e]+$/);
          expect(a).not.toMatch(/[.*>$]/);
          expect(a === b).toBe(one === other);
        },
      ),
    );
    expect(filled('o.{key}', { key: '$1 {type}', type: 't', source: 's' }, subjectToken)).toBe(
      'o.%241%20{type}',
    );
  });
});

describe('a client that is not installed', () => {
  it('is named, with what to do', async () => {
    const load = () => import('@sluice/not-a-package' as string);
    expect(await missingClient(load)).toBe(
      'needs the package @sluice/not-a-package, which is not installed: npm install @sluice/not-a-package',
    );
    for (const mode of BROKER_MODES) expect(await missingClient(() => kindOf(mode))).toBeUndefined();
    await expect(missingClient(() => Promise.reject(new Error('other')))).rejects.toThrow('other');
  });
});
