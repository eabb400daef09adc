import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { READ_KEY } from '../support/app.ts';
import { startBrokerProxy } from '../support/broker-proxy.ts';
import { hasNatsServer, type NatsServer, startNatsServer } from '../support/nats-server.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const LOGIN = { user: 'sluice', pass: 'not-in-any-response' };
const CONFIG = `max_payload: 64KB
authorization { users: [
  { user: "${LOGIN.user}", password: "${LOGIN.pass}" },
  { user: "reader", password: "reader", permissions: { publish: "_INBOX.>", subscribe: ">" } },
  { user: "publisher", password: "publisher", permissions: { publish: ["orders.>"], subscribe: "_INBOX.>" } } ] }`;
/** Nothing listens there. */
const AWAY = 'nats://127.0.0.1:4';
const CREDENTIALS = { username: LOGIN.user, password: LOGIN.pass };

(hasNatsServer('sinks: NATS') ? describe : describe.skip)('a listener with the mode nats', () => {
  const { replica, database } = sharedReplica({
    EGRESS_ALLOW: '127.0.0.0/8',
    LOG_LEVEL: 'debug',
    SECRETS_KEYS: `test=${Buffer.alloc(32, 1).toString('base64')}`,
  });
  let nats: NatsServer;

  beforeAll(async () => {
    nats = await startNatsServer(CONFIG, LOGIN);
    await nats.addStream('ORDERS', ['orders.>']);
  });
  afterAll(() => nats.stop());

  const put = (name: string, target: Record<string, unknown> = {}, more: Record<string, unknown> = {}) =>
    replica.call('PUT', `/v1/listeners/${name}`, {
      body: {
        mode: 'nats',
        types: [`${name}/*`],
        nats: { servers: [nats.url], subject: `orders.${name}.{key}`, stream: 'ORDERS', ...target },
        credentials: CREDENTIALS,
        retrySchedule: ['1ms', '1ms', '1ms', '1ms', '1ms', '1ms'],
        ...more,
      },
    });
  const post = async (type: string, key: string, payload: unknown = {}): Promise<string> => {
    const response = await replica.call('POST', '/v1/messages', { body: { type, key, payload } });
    expect(response.status).toBe(202);
    return response.body.id;
  };
  const deliveriesOf = async (id: string) =>
    (await replica.call('GET', `/v1/messages/${id}`)).body.deliveries;
  const statusOf = async (id: string) => (await deliveriesOf(id))[0]?.status;
  const storedOf = async (name: string, stream = 'ORDERS') =>
    (await nats.stored(stream)).filter(({ subject }) => subject.startsWith(`orders.${name}.`));
  const lastError = async (id: string): Promise<string> =>
    (await deliveriesOf(id))[0]?.attempts.at(-1)?.error ?? '';

  it('publishes a CloudEvent whose id is that of the delivery, and says where it is stored', async () => {
    expect((await put('plain')).status).toBe(201);
    const id = await post('plain/happened', 'k.1 ä*', { n: 1.0, text: 'ä' });
    await until(async () => (await statusOf(id)) === 'finished');
    const [delivery] = await deliveriesOf(id);
    expect(delivery).toMatchObject({ listener: 'plain', attempt: 1 });
    expect(delivery.attempts).toEqual([
      expect.objectContaining({
        status: null,
        error: null,
        excerpt: expect.stringMatching(/^stream ORDERS, sequence \d+$/),
      }),
    ]);
    const [stored] = await storedOf('plain');
    expect(stored).toMatchObject({
      subject: 'orders.plain.k%2E1%20%C3%A4%2A',
      headers: {
        'Nats-Msg-Id': delivery.id,
        'ce-id': id,
        'ce-type': 'plain/happened',
        'ce-subject': 'k.1%20%C3%A4*',
        'ce-sequence': '1',
        'content-type': 'application/json',
        traceparent: expect.stringMatching(/^00-/),
      },
    });
    expect(JSON.parse(stored!.text)).toEqual({ n: 1, text: 'ä' });
  });

  it('shows where it publishes, and its credentials to nobody', async () => {
    await put('shown');
    for (const key of [undefined, READ_KEY]) {
      const response = await replica.call('GET', '/v1/listeners/shown', key ? { key } : {});
      expect(response.body).toMatchObject({
        mode: 'nats',
        nats: { servers: [nats.url], subject: 'orders.shown.{key}', stream: 'ORDERS' },
        credentials: { username: '(hidden)', password: '(hidden)' },
        timeout: '15s',
      });
      expect(response.text).not.toContain(LOGIN.pass);
      expect(response.body).not.toHaveProperty('url');
    }
    const rows = await database.query<{ row: string }>('SELECT listener::text AS row FROM listener');
    expect(rows.map(({ row }) => row).join()).not.toContain(LOGIN.pass);
    expect(replica.lines.join()).not.toContain(LOGIN.pass);
  });

  it('keeps its credentials when it is changed without them, but not for another server', async () => {
    await put('kept');
    const change = (target: Record<string, unknown>) =>
      put('kept', target, { credentials: undefined, timeout: '5s' });
    expect((await change({})).body.credentials).toEqual({ username: '(hidden)', password: '(hidden)' });
    expect((await replica.call('POST', '/v1/listeners/kept/test')).body.delivered).toBe(true);
    expect((await change({ servers: [AWAY] })).body.credentials).toEqual({});
  });

  it('keeps the order of a key, also while the server is killed and started again', async () => {
    await put('order', {}, { retrySchedule: undefined });
    const ids: string[] = [];
    for (let n = 0; n < 60; n++) {
      ids.push(await post('order/x', `k-${n % 4}`, n));
      if (n === 20) await nats.kill();
      if (n === 40) await nats.start();
    }
    await until(async () => (await Promise.all(ids.map(statusOf))).every((status) => status === 'finished'));
    const stored = await storedOf('order');
    expect(stored.map(({ headers }) => headers['ce-id']).toSorted()).toEqual(ids.toSorted());
    for (const key of ['k-0', 'k-1', 'k-2', 'k-3']) {
      const sequences = stored
        .filter(({ subject }) => subject.endsWith(key))
        .map(({ headers }) => Number(headers['ce-sequence']));
      expect(sequences).toEqual(Array.from({ length: 15 }, (_, n) => n + 1));
    }
  });

  it('stores a message once when the acknowledgement is lost', async () => {
    const proxy = await startBrokerProxy(nats.port);
    await put('lost', { servers: [`nats://127.0.0.1:${proxy.port}`] });
    const first = await post('lost/x', 'k');
    await until(async () => (await statusOf(first)) === 'finished');
    proxy.swallowReplies();
    const second = await post('lost/x', 'k');
    await until(async () => (await storedOf('lost')).length === 2);
    expect(await statusOf(second)).not.toBe('finished');
    proxy.cut();
    await until(async () => (await statusOf(second)) === 'finished');
    const [delivery] = await deliveriesOf(second);
    expect(delivery.attempts.at(-1).excerpt).toMatch(/, a duplicate$/);
    expect(await lastErrorOf(second, 0)).toMatch(/^reset: /);
    expect(await storedOf('lost')).toHaveLength(2);
    await proxy.close();
  });
  const lastErrorOf = async (id: string, nth: number) => (await deliveriesOf(id))[0].attempts[nth].error;

  it('fails in time when the server takes messages and never acknowledges, and connects again', async () => {
    const proxy = await startBrokerProxy(nats.port);
    await put('silent', { servers: [`nats://127.0.0.1:${proxy.port}`] }, { timeout: '1s' });
    proxy.swallowReplies();
    const id = await post('silent/x', 'k');
    await until(async () => (await lastError(id)).startsWith('timeout: '));
    proxy.cut();
    await until(async () => (await statusOf(id)) === 'finished');
    expect(await storedOf('silent')).toHaveLength(1);
    await proxy.close();
  });

  it.each([
    [
      'wrong credentials',
      {},
      { username: 'sluice', password: 'wrong' },
      /^auth: the server refused: .*authorization/i,
    ],
    [
      'no permission to publish',
      {},
      { username: 'reader', password: 'reader' },
      /^auth: the server refused: .*permission/i,
    ],
    [
      'a stream that does not exist',
      { stream: 'NONE' },
      CREDENTIALS,
      /^setup: the stream does not exist: create it/,
    ],
    [
      'a subject of no stream',
      { stream: undefined, subject: 'nowhere.{key}' },
      CREDENTIALS,
      /^setup: no stream takes this subject/,
    ],
    ['a server without TLS', { tls: {} }, CREDENTIALS, /^(tls|protocol): .*tls/],
  ])(
    'with %s a delivery fails with the reason, and ends as a dead letter',
    async (what, target, credentials, error) => {
      const name = `bad-${what.replaceAll(/[^a-z]/gi, '')}`.slice(0, 30).toLowerCase();
      expect((await put(name, target, { credentials, retrySchedule: ['1ms'] })).status).toBe(201);
      const id = await post(`${name}/x`, 'k');
      await until(async () => (await statusOf(id)) === 'dead');
      expect(await lastError(id)).toMatch(error);
      const test = await replica.call('POST', `/v1/listeners/${name}/test`);
      expect(test.body).toMatchObject({
        delivered: false,
        status: null,
        error: expect.stringMatching(error),
      });
    },
  );

  it('publishes with a user that may not read the stream, and says that the window was not checked', async () => {
    await put('writeonly', {}, { credentials: { username: 'publisher', password: 'publisher' } });
    const id = await post('writeonly/x', 'k');
    await until(async () => (await statusOf(id)) === 'finished');
    expect(replica.lines.some((line) => line.includes('brokers.unchecked'))).toBe(true);
  });

  it('refuses a stream that forgets ids sooner than a lease lasts', async () => {
    await nats.addStream('SHORT', ['short.>'], 30_000);
    await put('short', { stream: 'SHORT', subject: 'short.{key}' }, { retrySchedule: ['1ms'] });
    const id = await post('short/x', 'k');
    await until(async () => (await statusOf(id)) === 'dead');
    expect(await lastError(id)).toBe(
      'setup: the stream recognizes duplicates for 30s only; set its duplicate window above OUTBOX_LEASE (1m)',
    );
    expect(await nats.stored('SHORT')).toEqual([]);
    await nats.setDuplicateWindow('SHORT', 120_000);
    const next = await post('short/x', 'k');
    await until(async () => (await statusOf(next)) === 'finished');
  });

  it('gives up a message that is too large, and publishes the next one', async () => {
    await put('large', {}, { retrySchedule: ['1ms'] });
    const large = await post('large/x', 'k', 'x'.repeat(70_000));
    await until(async () => (await statusOf(large)) === 'dead');
    expect(await lastError(large)).toMatch(/^rejected: .*max_payload/);
    const next = await post('large/x', 'k');
    await until(async () => (await statusOf(next)) === 'finished');
  });

  it('can be paused, replayed, deleted and brought back like any listener', async () => {
    await put('steered');
    await replica.call('POST', '/v1/listeners/steered/pause');
    const id = await post('steered/x', 'k');
    await until(async () => (await statusOf(id)) === 'pending');
    await replica.call('POST', '/v1/listeners/steered/resume');
    await until(async () => (await statusOf(id)) === 'finished');
    expect((await replica.call('POST', '/v1/listeners/steered/rotate-secret')).status).toBe(409);
    const since = '2000-01-01T00:00:00Z';
    expect((await replica.call('POST', '/v1/listeners/steered/replay', { body: { since } })).status).toBe(
      202,
    );
    await until(async () => (await deliveriesOf(id))[0].attempts.length === 2);
    expect((await deliveriesOf(id))[0].attempts[1].excerpt).toMatch(/, a duplicate$/);
    expect((await replica.call('DELETE', '/v1/listeners/steered')).status).toBe(204);
    expect((await put('steered')).status).toBe(201);
    const next = await post('steered/x', 'k');
    await until(async () => (await statusOf(next)) === 'finished');
    expect(await storedOf('steered')).toHaveLength(2);
  });

  it('publishes no faster than its rate limit', async () => {
    await put('rated', {}, { rateLimit: { perSecond: 0.02, burst: 1 } });
    const ids = await Promise.all(['a', 'b'].map((key) => post('rated/x', key)));
    await until(async () => (await Promise.all(ids.map(statusOf))).includes('finished'));
    const health = async () => (await replica.call('GET', '/v1/listeners/rated')).body.health;
    await until(async () => (await health()).rate.limitedUntil !== null);
    expect(await storedOf('rated')).toHaveLength(1);
  });

  it('counts no attempt while the server is away, and opens the circuit', async () => {
    await put('away', { servers: [AWAY] }, { retrySchedule: ['1ms'] });
    const ids = await Promise.all(Array.from({ length: 10 }, (_, n) => post('away/x', `k-${n}`)));
    const attempts = async () => (await deliveriesOf(ids[0]!))[0].attempts;
    await until(async () => (await attempts()).length > 2);
    expect((await attempts())[0].error).toMatch(/^refused: ECONNREFUSED/);
    expect(await statusOf(ids[0]!)).not.toBe('dead');
    const circuit = async () => (await replica.call('GET', '/v1/listeners/away')).body.health.circuit;
    await until(async () => (await circuit()) === 'open');
  });
});
