import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

const GOOD = { types: ['a'], url: 'https://1.1.1.1/hook' };
const many = <T>(count: number, item: (n: number) => T) => Array.from({ length: count }, (_, n) => item(n));

let database: TestDatabase;
let replica: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  const DATA_DIRECTORY = mkdtempSync(join(tmpdir(), 'sluice-keys-'));
  replica = await startApp(database, { ROLES: 'api', DATA_DIRECTORY });
});
afterAll(async () => {
  await replica.close();
  await database.drop();
});

const put = (body: unknown, name = 'a') => replica.call('PUT', `/v1/listeners/${name}`, { body });

describe('an invalid definition is refused with 422 and the place of each error', () => {
  it.each<[what: string, change: Record<string, unknown>, pointer: string, detail: RegExp]>([
    ['an unknown field', { webhook: 'x' }, '/webhook', /^is not a known field$/],
    ['a misspelled field', { tiemout: '5s' }, '/tiemout', /did you mean "timeout"\?/],
    ['a name in the body', { name: 'a' }, '/name', /not a known field/],
    ['a secret in the body', { secret: 'whsec_x' }, '/secret', /not a known field/],
    ['a state in the body', { state: 'paused' }, '/state', /not a known field/],
    ['a field that every object has', { toString: 'x' }, '/toString', /not a known field/],
    ['a constructor', { constructor: { name: 'Set' } }, '/constructor', /not a known field/],
    [
      'a nested constructor',
      { rateLimit: { perSecond: 1, constructor: 'x' } },
      '/rateLimit/constructor',
      /not a known field/,
    ],
    ['a URL for a queue', { mode: 'pull' }, '/url', /only for the mode "webhook"/],
    ['an unknown mode', { mode: 'email' }, '/mode', /must be "webhook"/],
    ['a mode of null', { mode: null }, '/mode', /must be/],
    ['no types', { types: undefined }, '/types', /^is required$/],
    ['an empty list of types', { types: [] }, '/types', /list of 1 to 50/],
    ['types that are not a list', { types: 'a' }, '/types', /list of 1 to 50/],
    ['51 types', { types: many(51, String) }, '/types', /list of 1 to 50/],
    ['an empty type', { types: ['a', ''] }, '/types/1', /must be a type/],
    ['a type that is not a string', { types: [5] }, '/types/0', /must be a type/],
    ['a type of 201 characters', { types: ['x'.repeat(201)] }, '/types/0', /longer than 200/],
    ['a type with a line break', { types: ['a\nb'] }, '/types/0', /control characters/],
    ['a duplicate type', { types: ['a', 'b', 'a'] }, '/types/2', /same as number 0/],
    ['no url', { url: undefined }, '/url', /^is required$/],
    ['an empty url', { url: '' }, '/url', /must be a non-empty string/],
    ['a url that is a number', { url: 5 }, '/url', /must be a non-empty string/],
    ['an invalid url', { url: 'example.com' }, '/url', /is refused: it is not a URL/],
    ['a url of another scheme', { url: 'ftp://example.com/' }, '/url', /is refused/],
    ['a url with credentials', { url: 'https://u:p@example.com/' }, '/url', /is refused: .*credentials/],
    ['a loopback url', { url: 'http://127.0.0.1:8080/' }, '/url', /is refused: .*loopback/],
    ['a loopback url as a number', { url: 'http://2130706433/' }, '/url', /is refused: /],
    ['this machine by name', { url: 'http://LOCALHOST.:8080/' }, '/url', /is refused: .*loopback/],
    ['this machine by another name', { url: 'http://a.localhost/' }, '/url', /is refused: .*loopback/],
    ['the metadata service by name', { url: 'http://metadata.google.internal/' }, '/url', /\(metadata\)/],
    ['the metadata service', { url: 'http://169.254.169.254/latest' }, '/url', /is refused: /],
    ['a url of 2049 characters', { url: `https://1.1.1.1/${'x'.repeat(2033)}` }, '/url', /longer than/],
    ['ordered as a string', { ordered: 'yes' }, '/ordered', /true or false/],
    ['0 lanes', { lanes: 0 }, '/lanes', /whole number from 1 to 256/],
    ['257 lanes', { lanes: 257 }, '/lanes', /whole number from 1 to 256/],
    ['half a lane', { lanes: 1.5 }, '/lanes', /whole number/],
    ['a timeout as a number', { timeout: 15 }, '/timeout', /duration from 1s to 1m/],
    ['a timeout without unit', { timeout: '15' }, '/timeout', /duration/],
    ['a timeout that is too short', { timeout: '999ms' }, '/timeout', /duration from 1s/],
    ['a timeout that is too long', { timeout: '61s' }, '/timeout', /to 1m/],
    ['a timeout that the lease does not cover', { timeout: '51s' }, '/timeout', /at most 50s .*LEASE \(1m\)/],
    ['no retry', { retrySchedule: [] }, '/retrySchedule', /list of 1 to 50/],
    ['51 retries', { retrySchedule: many(51, () => '1s') }, '/retrySchedule', /list of 1 to 50/],
    ['a retry that is not a duration', { retrySchedule: ['1s', 'soon'] }, '/retrySchedule/1', /duration/],
    ['a retry after 0', { retrySchedule: ['0s'] }, '/retrySchedule/0', /duration from 1ms/],
    ['a retry that is too late', { retrySchedule: ['365d'] }, '/retrySchedule/0', /to 30d/],
    ['a terminal success', { terminalStatuses: [200] }, '/terminalStatuses/0', /300 to 599/],
    ['a terminal string', { terminalStatuses: ['400'] }, '/terminalStatuses/0', /whole number/],
    [
      'a duplicate terminal status',
      { terminalStatuses: [400, 400] },
      '/terminalStatuses/1',
      /same as number 0/,
    ],
    ['a rate limit that is a number', { rateLimit: 5 }, '/rateLimit', /must be an object/],
    ['a rate limit that is a list', { rateLimit: [] }, '/rateLimit', /must be an object/],
    ['an empty rate limit', { rateLimit: {} }, '/rateLimit', /must have perSecond, perKey or both/],
    ['a rate of 0', { rateLimit: { perSecond: 0 } }, '/rateLimit/perSecond', /from 0.01 to 10000/],
    ['a rate of 10001', { rateLimit: { perSecond: 10_001 } }, '/rateLimit/perSecond', /from 0.01/],
    ['a burst of 0', { rateLimit: { perSecond: 1, burst: 0 } }, '/rateLimit/burst', /whole number from 1/],
    [
      'a rate per key of 0',
      { rateLimit: { perKey: { perSecond: 0 } } },
      '/rateLimit/perKey/perSecond',
      /0.01/,
    ],
    ['an empty rate per key', { rateLimit: { perKey: {} } }, '/rateLimit/perKey/perSecond', /is required/],
    [
      'an unknown limit',
      { rateLimit: { perSecond: 1, perDay: 5 } },
      '/rateLimit/perDay',
      /not a known field/,
    ],
    ['headers as a list', { headers: ['a'] }, '/headers', /must be an object/],
    [
      '51 headers',
      { headers: Object.fromEntries(many(51, (n) => [`x-${n}`, ''])) },
      '/headers',
      /more than 50/,
    ],
    ['a header that is a number', { headers: { 'X-A': 5 } }, '/headers/X-A', /must be a string/],
    ['a header with a line break', { headers: { 'X-A': 'a\r\nb: c' } }, '/headers/X-A', /printable ASCII/],
    ['a header name with a blank', { headers: { 'X A': 'a' } }, '/headers/X A', /not a header name/],
    ['a header name with a slash', { headers: { 'X/A': 'a' } }, '/headers/X~1A', /not a header name/],
    ['a duplicate header', { headers: { 'X-A': '1', 'x-a': '2' } }, '/headers/x-a', /is there twice/],
    [
      'a reserved header',
      { headers: { 'Webhook-Signature': 'v1,x' } },
      '/headers/Webhook-Signature',
      /sets itself/,
    ],
    ['the host', { headers: { HOST: 'inner' } }, '/headers/HOST', /sets itself/],
    ['the length', { headers: { 'content-length': '5' } }, '/headers/content-length', /sets itself/],
    ['an unknown format', { format: 'xml' }, '/format', /"standard" or "cloudevents"/],
    ['an unknown onDead', { onDead: 'drop' }, '/onDead', /"skip" or "hold"/],
    ['disableAfter as a number', { disableAfter: 10 }, '/disableAfter', /must be an object/],
    ['disableAfter without times', { disableAfter: { status: 403 } }, '/disableAfter/times', /is required/],
    ['disableAfter of a success', { disableAfter: { status: 200, times: 1 } }, '/disableAfter/status', /300/],
  ])('%s', async (_what, change, pointer, detail) => {
    const response = await put({ ...GOOD, ...change });
    expect([response.status, response.body.type]).toEqual([422, 'urn:sluice:problems/invalid']);
    expect(response.body.errors).toEqual([{ pointer, detail: expect.stringMatching(detail) }]);
  });

  it('all of them at once', async () => {
    const body = {
      types: ['', 'ok', ''],
      url: 'http://[::1]/',
      timeout: '1h',
      lanes: -1,
      headers: { Host: 'x' },
      x: 1,
    };
    const { errors } = (await put(body)).body;
    expect(errors.map(({ pointer }: { pointer: string }) => pointer).sort()).toEqual(
      ['/headers/Host', '/lanes', '/timeout', '/types/0', '/types/2', '/types/2', '/url', '/x'].sort(),
    );
  });

  it.each([null, [], 'text', 5, true])('a body that is not an object: %j', async (body) => {
    const response = await put(JSON.stringify(body));
    expect([response.status, response.body.errors]).toEqual([
      422,
      [{ pointer: '', detail: 'must be an object' }],
    ]);
  });

  it.each<[what: string, change: Record<string, unknown>]>([
    ['20,000 unknown fields', Object.fromEntries(many(20_000, (n) => [`field-${n}`, n]))],
    ['20,000 unknown limits', { rateLimit: Object.fromEntries(many(20_000, (n) => [`field-${n}`, n])) }],
    ['20,000 rate limits', { rateLimit: many(20_000, () => ({ perSecond: 0 })) }],
    ['100,000 types', { types: many(100_000, () => '') }],
  ])('%s do not delay other requests, and are not all reported', async (_what, change) => {
    const startedAt = performance.now();
    const response = await put({ ...GOOD, ...change });
    expect([response.status, response.body.errors.length <= 50]).toEqual([422, true]);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it.each(['-a', '.a', 'a%20b', 'ä', 'a%00', 'a'.repeat(64), 'a%2Fb', '%F0%9F%98%80'])(
    'an invalid name: %s',
    async (name) => {
      expect((await put(GOOD, name)).status).toBe(422);
      expect((await replica.call('GET', `/v1/listeners/${name}`)).status).toBe(404);
      expect((await replica.call('DELETE', `/v1/listeners/${name}`)).status).toBe(404);
    },
  );

  it('and nothing of it is stored', async () => {
    expect(await database.query('SELECT FROM listener')).toEqual([]);
  });
});

describe('a definition that is unusual', () => {
  it.each<[what: string, name: string, change: Record<string, unknown>]>([
    ['a name with case and dots', 'Billing.EU_2-x', {}],
    ['a name of 63 characters', 'n'.repeat(63), {}],
    ['headers that are names of Object', 'objects', { headers: { constructor: 'x', toString: 'y' } }],
    ['50 patterns', 'patterns', { types: many(50, (n) => `${'*'.repeat(n + 1)}a`) }],
    ['a url with a query and a port', 'query', { url: 'https://1.1.1.1:8443/a?b=c&d' }],
    ['a host that does not resolve now', 'later', { url: 'https://not-yet.invalid/hook' }],
  ])('is accepted: %s', async (_what, name, change) => {
    const response = await put({ ...GOOD, ...change }, name);
    expect([response.status, response.body.errors]).toEqual([201, undefined]);
    const shown = await replica.call('GET', `/v1/listeners/${name}`);
    expect(shown.body).toMatchObject({ name, ...GOOD, ...change });
  });
});
