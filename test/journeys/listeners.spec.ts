import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { Listeners } from '../../src/listeners/listeners.ts';
import { READ_KEY, startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { type Receiver, startReceiver, status } from '../support/receiver.ts';
import { until } from '../support/until.ts';

/** An address, so that no name is resolved; nothing is sent there. */
const URL_OF_ALL = 'https://1.1.1.1/hook';
const SEEN_WITHIN_MS = 2_000;

let database: TestDatabase;
let one: TestApp;
let other: TestApp;
let receiver: Receiver;

beforeAll(async () => {
  const environment = {
    ROLES: 'api',
    LOG_LEVEL: 'trace',
    EGRESS_ALLOW: '127.0.0.0/8',
    DATA_DIRECTORY: mkdtempSync(join(tmpdir(), 'sluice-keys-')),
  };
  database = await createDatabase();
  receiver = await startReceiver();
  one = await startApp(database, environment);
  other = await startApp(database, environment);
});
afterAll(async () => {
  await Promise.all([one.close(), other.close(), receiver.close()]);
  await database.drop();
});

const put = (name: string, body: Record<string, unknown> = {}, replica = one) =>
  replica.call('PUT', `/v1/listeners/${name}`, { body: { types: [`${name}/*`], url: URL_OF_ALL, ...body } });
const get = (name: string, replica = one) => replica.call('GET', `/v1/listeners/${name}`);
const act = (name: string, action: string, body?: unknown) =>
  one.call('POST', `/v1/listeners/${name}/${action}`, body === undefined ? {} : { body });
const known = (replica: TestApp, name: string) =>
  replica.app.nest
    .get(Listeners)
    .all()
    .find((listener) => listener.name === name);

describe('a listener', () => {
  it('is created with its defaults, and its secret is shown once', async () => {
    const created = await put('plain');
    expect([created.status, created.headers.get('location')]).toEqual([201, '/v1/listeners/plain']);
    const { secret, ...shown } = created.body;
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(shown).toEqual({
      name: 'plain',
      mode: 'webhook',
      types: ['plain/*'],
      url: URL_OF_ALL,
      ordered: true,
      lanes: 16,
      timeout: '15s',
      retrySchedule: ['5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h'],
      terminalStatuses: [],
      rateLimit: null,
      headers: {},
      format: 'standard',
      onDead: 'skip',
      disableAfter: null,
      state: 'active',
      stateReason: null,
      stateSince: expect.any(String),
      stateBy: 'admin',
      health: {
        circuit: 'closed',
        closedUntil: null,
        reason: null,
        rate: { perSecond: null, limitedUntil: null },
      },
      origin: 'api',
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
    });
    expect((await get('plain', other)).body).toEqual(shown);
    const again = await put('plain', { timeout: '2s' });
    expect([again.status, again.body.timeout, 'secret' in again.body]).toEqual([200, '2s', false]);
  });

  it('accepts every field of the API, and returns it', async () => {
    const definition = {
      mode: 'webhook',
      types: ['urn:ekp:events/*', 'exact'],
      url: URL_OF_ALL,
      ordered: false,
      lanes: 3,
      timeout: '1.5s',
      retrySchedule: ['250ms', '1d'],
      terminalStatuses: [400, 403],
      rateLimit: { perSecond: 30, burst: 60, perKey: { perSecond: 1 } },
      headers: { 'X-Tenant': 'blue' },
      format: 'cloudevents',
      onDead: 'hold',
      disableAfter: { status: 403, times: 10 },
    };
    expect((await put('whole', definition)).body).toMatchObject(definition);
    expect((await get('whole')).body).toMatchObject(definition);
    expect(known(one, 'whole')).toMatchObject({
      lanes: 3,
      timeoutMs: 1_500,
      retryScheduleMs: [250, 86_400_000],
      headers: { 'X-Tenant': 'blue' },
      rateLimit: { perSecond: 30, burst: 60, perKey: { perSecond: 1 } },
    });
  });

  it.each([
    [{ perSecond: 0.5 }, { perSecond: 0.5, burst: 1 }],
    [{ perSecond: 2.5 }, { perSecond: 2.5, burst: 3 }],
    [{ perKey: { perSecond: 1 } }, { perSecond: 10_000, burst: 10_000, perKey: { perSecond: 1 } }],
  ])('with the rate limit %j has %j', async (rateLimit, effective) => {
    expect((await put('limited', { rateLimit })).body.rateLimit).toEqual(effective);
  });

  it('takes effect on every replica within 2 s, and on this one at once', async () => {
    await put('spread');
    expect(one.app.nest.get(Listeners).of('spread/x')).toHaveLength(1);
    await until(() => other.app.nest.get(Listeners).of('spread/x').length === 1, SEEN_WITHIN_MS);
    await act('spread', 'pause');
    expect(known(one, 'spread')?.state).toBe('paused');
    await until(() => known(other, 'spread')?.state === 'paused', SEEN_WITHIN_MS);
    expect(other.app.nest.get(Listeners).of('spread/x')).toHaveLength(1);
    await one.call('DELETE', '/v1/listeners/spread');
    expect(one.app.nest.get(Listeners).of('spread/x')).toEqual([]);
    await until(() => !known(other, 'spread'), SEEN_WITHIN_MS);
  });

  it('gets what is posted after it was created, also if another replica handles it', async () => {
    const handler = await startApp(database, { ROLES: 'inbox' });
    const ended = async (id: string) => {
      const read = async () => (await one.call('GET', `/v1/messages/${id}`)).body;
      await until(async () => (await read()).status === 'finished');
      return read();
    };
    try {
      for (let n = 0; n < 20; n++) {
        await put(`prompt-${n}`);
        const body = { type: `prompt-${n}/x`, payload: n };
        const { id } = (await one.call('POST', '/v1/messages', { body })).body;
        expect((await ended(id)).deliveries).toMatchObject([{ listener: `prompt-${n}` }]);
      }
    } finally {
      await handler.close();
    }
  });

  it('notifies watchers of each change, and of nothing else', async () => {
    let changes = 0;
    other.app.nest.get(Listeners).onChange(() => {
      changes += 1;
    });
    await other.app.nest.get(Listeners).refresh();
    changes = 0;
    for (let n = 0; n < 5; n++) await other.app.nest.get(Listeners).refresh();
    expect(changes).toBe(0);
    await put('watched', {}, other);
    expect(changes).toBe(1);
  });

  it('has its own lanes, in the number it was created with, forever', async () => {
    await put('laned', { lanes: 5 });
    const { number } = known(one, 'laned')!;
    const lanes = await database.query<{ lane: number }>(
      `SELECT lane FROM lane WHERE queue = 'outbox' AND lane / 256 = $1 ORDER BY lane`,
      [number],
    );
    expect(lanes.map(({ lane }) => lane)).toEqual([0, 1, 2, 3, 4].map((n) => number * 256 + n));
    expect((await put('laned', { lanes: 5, timeout: '9s' })).status).toBe(200);
    expect((await put('laned')).body.lanes).toBe(5);
    const changed = await put('laned', { lanes: 6 });
    expect([changed.status, changed.body.errors]).toEqual([
      409,
      [{ pointer: '/lanes', detail: 'must be 5' }],
    ]);
    expect(changed.body.detail).toMatch(/leave lanes out, or create a listener of another name with 6/);
  });

  it('that was deleted and created again has its number, a new secret and a new state', async () => {
    const before = await put('phoenix', { lanes: 4, headers: { a: 'b' } });
    const { number } = known(one, 'phoenix')!;
    await act('phoenix', 'pause', { reason: 'smoke' });
    expect((await one.call('DELETE', '/v1/listeners/phoenix')).status).toBe(204);
    expect(known(one, 'phoenix')).toBeUndefined();
    expect(one.app.nest.get(Listeners).deleted().has(number)).toBe(true);
    const gone = [get('phoenix'), act('phoenix', 'pause'), act('phoenix', 'rotate-secret')];
    for (const response of await Promise.all(gone)) expect(response.status).toBe(404);
    expect((await one.call('DELETE', '/v1/listeners/phoenix')).status).toBe(404);

    expect((await put('phoenix', { lanes: 8 })).status).toBe(409);
    const back = await put('phoenix');
    expect([back.status, back.body.lanes, back.body.state, back.body.stateReason, back.body.headers]).toEqual(
      [201, 4, 'active', null, {}],
    );
    expect(back.body.secret).not.toBe(before.body.secret);
    expect(known(one, 'phoenix')?.number).toBe(number);
    expect(one.app.nest.get(Listeners).deleted().has(number)).toBe(false);
  });

  it('is created once by concurrent requests, and wastes no numbers', async () => {
    const responses = await Promise.all(
      Array.from({ length: 8 }, (_, n) => put('contended', {}, n % 2 ? one : other)),
    );
    expect(responses.map(({ status: code }) => code).sort()).toEqual([
      200, 200, 200, 200, 200, 200, 200, 201,
    ]);
    await put('next');
    expect(known(one, 'next')!.number).toBe(known(one, 'contended')!.number + 1);
  });

  it('is on one page of the list, which is sorted by name', async () => {
    const all = (await one.call('GET', '/v1/listeners?limit=500', { key: READ_KEY })).body.items;
    const seen: unknown[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const page = await one.call('GET', `/v1/listeners?limit=2${cursor && `&cursor=${cursor}`}`, {
        key: READ_KEY,
      });
      seen.push(...page.body.items);
      cursor = page.body.next;
    }
    const names = all.map(({ name }: { name: string }) => name);
    expect(names.length).toBeGreaterThan(4);
    expect(names).toEqual([...names].sort());
    expect(seen).toEqual(all);
    for (const bad of ['limit=0', 'cursor=x', 'status=active'])
      expect((await one.call('GET', `/v1/listeners?${bad}`)).status).toBe(422);
  });

  it("shows its headers' values to admins only", async () => {
    await put('credential', { headers: { Authorization: 'Bearer canary-of-a-header' } });
    const asReader = await one.call('GET', '/v1/listeners/credential', { key: READ_KEY });
    expect(asReader.body.headers).toEqual({ Authorization: '(hidden)' });
    expect((await get('credential')).body.headers).toEqual({ Authorization: 'Bearer canary-of-a-header' });
  });

  it.each([
    ['https://1.1.1.1/hooks/canary?token=canary', 'https://1.1.1.1/…'],
    ['https://1.1.1.1:8443/canary', 'https://1.1.1.1:8443/…'],
    ['http://[2606:4700::1111]/?canary', 'http://[2606:4700::1111]/…'],
    ['https://HOOKS.not-yet.invalid:443/canary#canary', 'https://hooks.not-yet.invalid/…'],
    ['https://1.1.1.1', 'https://1.1.1.1/…'],
  ])('shows path and query of its URL to admins only: %s', async (url, shown) => {
    expect((await put('addressed', { url })).body.url).toBe(url);
    expect((await get('addressed')).body.url).toBe(url);
    const [only, all] = await Promise.all([
      one.call('GET', '/v1/listeners/addressed', { key: READ_KEY }),
      one.call('GET', '/v1/listeners?limit=500', { key: READ_KEY }),
    ]);
    expect(only.body.url).toBe(shown);
    expect(all.body.items.find(({ name }: { name: string }) => name === 'addressed').url).toBe(shown);
    expect(only.text).not.toContain('canary');
    expect(known(one, 'addressed')!.url).toBe(url);
  });
});

describe('the state of a listener', () => {
  it('is paused and resumed by operators, with who, when and why', async () => {
    await put('state');
    const paused = await act('state', 'pause', { reason: 'their maintenance' });
    expect([paused.status, paused.body.state, paused.body.stateReason, paused.body.stateBy]).toEqual([
      200,
      'paused',
      'their maintenance',
      'admin',
    ]);
    const again = await act('state', 'pause', { reason: 'another' });
    expect([again.body.stateReason, again.body.stateSince]).toEqual([
      'their maintenance',
      paused.body.stateSince,
    ]);
    expect((await put('state', { timeout: '3s' })).body.state).toBe('paused');
    const resumed = await act('state', 'resume');
    expect([resumed.status, resumed.body.state, resumed.body.stateReason]).toEqual([200, 'active', null]);
  });

  it('is disabled by the engine once, and cleared by a resume', async () => {
    await put('broken');
    const engine = one.app.nest.get(Listeners);
    const [listener] = engine.of('broken/x');
    const both = [
      engine.disable(listener!, 'responded 410'),
      other.app.nest.get(Listeners).disable(listener!, 'responded 410'),
    ];
    expect((await Promise.all(both)).sort()).toEqual([false, true]);
    const shown = (await get('broken')).body;
    expect([shown.state, shown.stateReason, shown.stateBy]).toEqual(['disabled', 'responded 410', 'sluice']);
    expect(engine.of('broken/x').map(({ state }) => state)).toEqual(['disabled']);
    expect((await act('broken', 'resume')).body.state).toBe('active');
    // Earlier failures do not count any more.
    expect(await engine.disable(listener!, 'responded 410')).toBe(false);
  });

  it('that an operator paused is not changed by the engine', async () => {
    await put('paused-before');
    await act('paused-before', 'pause');
    const engine = one.app.nest.get(Listeners);
    expect(await engine.disable(engine.of('paused-before/x')[0]!, 'no')).toBe(false);
    expect((await get('paused-before')).body.state).toBe('paused');
    expect(await engine.disable({ name: 'never-there', revision: 1 }, 'no')).toBe(false);
  });

  it.each([{ reason: '' }, { reason: 5 }, { reason: null }, { why: 'x' }, []])(
    'is not changed by a request with an invalid reason: %j',
    async (body) => {
      await put('reasonable');
      expect((await act('reasonable', 'pause', body)).status).toBe(422);
    },
  );
});

describe('the secret of a listener', () => {
  it('is rotated: both sign, then only the new one; a new definition changes neither', async () => {
    const { secret: first } = (await put('rotating')).body;
    const response = await act('rotating', 'rotate-secret');
    const { secret: second, oldSecretUntil } = response.body;
    expect(response.status).toBe(200);
    expect(Date.parse(oldSecretUntil) - Date.now()).toBeGreaterThan(23.9 * 3_600_000);
    expect(known(one, 'rotating')?.secrets).toEqual([second, first]);
    await put('rotating', { timeout: '4s' });
    expect(known(one, 'rotating')?.secrets).toEqual([second, first]);
    await until(() => known(other, 'rotating')?.secrets.length === 2, SEEN_WITHIN_MS);
  });

  it('cannot be rotated without limit', async () => {
    await put('dizzy');
    for (let n = 0; n < 4; n++) expect((await act('dizzy', 'rotate-secret')).status).toBe(200);
    expect((await act('dizzy', 'rotate-secret')).status).toBe(409);
    expect(known(one, 'dizzy')?.secrets).toHaveLength(5);
  });
});

describe('a test of a listener', () => {
  it('sends a signed ping now, in any state', async () => {
    const { secret } = (await put('pinged', { url: receiver.url, headers: { 'X-Tenant': 'blue' } })).body;
    await act('pinged', 'pause');
    receiver.received.length = 0;
    const response = await act('pinged', 'test');
    expect([response.status, response.body]).toEqual([
      200,
      { delivered: true, status: 204, error: null, durationMs: expect.any(Number) },
    ]);
    const [{ headers, text, body }] = receiver.received as [Receiver['received'][number]];
    expect(new Webhook(secret).verify(text, headers as Record<string, string>)).toEqual(body);
    expect([body.type, body.data, headers['x-tenant']]).toEqual([
      'urn:sluice:ping',
      { listener: 'pinged' },
      'blue',
    ]);
    expect(headers.traceparent).toMatch(/^00-[\da-f]{32}-[\da-f]{16}-00$/);
  });

  it('returns what went wrong', async () => {
    await put('pinged', { url: receiver.url });
    receiver.respond = status(500);
    expect((await act('pinged', 'test')).body).toMatchObject({
      delivered: false,
      status: 500,
      error: 'responded 500',
    });
    await put('pinged', { url: 'http://127.0.0.1:9999/nobody' });
    expect((await act('pinged', 'test')).body).toMatchObject({
      delivered: false,
      status: null,
      error: expect.stringMatching(/^refused: /),
    });
    expect((await act('nobody', 'test')).status).toBe(404);
  });
});

describe('a secret', () => {
  it('is in no log line and in no response except the two that show it', async () => {
    const { secret: first } = (
      await put('canary', { url: receiver.url, headers: { 'X-Token': 'canary-of-a-token' } })
    ).body;
    const { secret: second } = (await act('canary', 'rotate-secret')).body;
    await Promise.all([act('canary', 'test'), act('canary', 'pause'), act('canary', 'resume')]);
    const responses = await Promise.all([get('canary'), one.call('GET', '/v1/listeners?limit=500')]);
    const lines = [...one.lines, ...other.lines].join('\n');
    for (const secret of [first, second]) {
      const plain = secret.slice('whsec_'.length);
      for (const form of [plain, Buffer.from(plain, 'base64').toString('hex')]) {
        expect(lines).not.toContain(form);
        for (const { text } of responses) expect(text).not.toContain(form);
      }
    }
    expect(lines).not.toMatch(/canary-of-a-(token|header)/);
    expect(lines.length).toBeGreaterThan(1_000);
  });
});
