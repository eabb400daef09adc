import { afterEach, describe, expect, it } from '@jest/globals';
import { LiveStore } from '../../src/upkeep/live/live-store.ts';
import { LiveStreams } from '../../src/upkeep/live/live-streams.ts';
import { ADMIN_KEY, PRODUCE_KEY, READ_KEY, startApp, type TestApp } from '../support/app.ts';
import { type EventStream, openEventStream, type StreamEvent } from '../support/event-stream.ts';
import { metricsText } from '../support/metrics.ts';
import { sharedReplica, sharedReplicaBehindProxy } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const streams: EventStream[] = [];
afterEach(() => {
  for (const stream of streams.splice(0)) stream.close();
});

async function watch(replica: TestApp, headers?: Record<string, string>): Promise<EventStream> {
  const stream = await openEventStream(`${replica.url}/v1/live`, {
    ...(headers ?? { authorization: `Bearer ${READ_KEY}` }),
  });
  streams.push(stream);
  return stream;
}

async function cookieOf(replica: TestApp, key: string): Promise<string> {
  const session = await replica.call('POST', '/v1/session', { key: null, body: { key } });
  return session.headers.get('set-cookie')!.split(';')[0]!;
}

function heldKeys({ data }: StreamEvent): string[] {
  const items = data.attention?.items as { subject: { key?: string } }[] | undefined;
  return items?.flatMap(({ subject }) => subject.key ?? []) ?? [];
}

describe('E15 the live stream', () => {
  const { database, replica } = sharedReplica();

  it('has a snapshot at once and one per second, for a session as for an API key', async () => {
    const cookie = await cookieOf(replica, READ_KEY);
    for (const headers of [{ authorization: `Bearer ${READ_KEY}` }, { cookie }]) {
      const stream = await watch(replica, headers);
      expect([stream.status, stream.headers['content-type'], stream.headers['cache-control']]).toEqual([
        200,
        'text/event-stream; charset=utf-8',
        'no-store',
      ]);
      await until(() => stream.events.length >= 3);
      const [first, second, third] = stream.events;
      expect(first!.event).toBe('snapshot');
      expect(third!.atMs - second!.atMs).toBeGreaterThan(500);
      expect(first!.data).toEqual({
        at: expect.stringMatching(/Z$/),
        backlog: expect.objectContaining({ inbox: expect.any(Object), listeners: [] }),
        attention: { observedAt: expect.any(String), items: expect.any(Array) },
        rates: {
          windowSeconds: 30,
          acceptedPerSecond: expect.any(Number),
          appliedPerSecond: expect.any(Number),
          listeners: [],
          groups: [],
        },
      });
    }
  });

  it('shows a change at another replica within two seconds, and the rates of both', async () => {
    const other = await startApp(database, { ROLES: 'api' });
    try {
      const stream = await watch(replica);
      await until(() => stream.events.length > 0);
      const at = performance.now();
      await other.call('PUT', '/v1/keys/seen/hold', { body: { reason: 'x' } });
      await other.call('POST', '/v1/messages', { body: { type: 'x', key: 'seen', payload: 1 } });
      const seen = await until(() => stream.events.find(({ data }) => data.backlog?.inbox.held > 0));
      expect(seen!.atMs - at).toBeLessThan(2_500);
      // The other replica writes what it counted every ten seconds.
      await until(() => stream.events.at(-1)?.data.rates.acceptedPerSecond > 0);
    } finally {
      await other.close();
    }
  });

  it('shows what an operator does at any replica at once, not with the next tick', async () => {
    const other = await startApp(database, { ROLES: 'api' });
    try {
      const stream = await watch(replica);
      for (const acting of [other, replica]) {
        // On a busy machine the action itself may take until the next tick.
        await until(async () => {
          const { length } = stream.events;
          await until(() => stream.events.length >= length + 2);
          const tick = stream.events.at(-1)!;
          await acting.call('PUT', '/v1/keys/early/hold', { body: { reason: 'x' } });
          const shown = await until(() => stream.events.find(({ atMs }) => atMs > tick.atMs));
          return shown!.atMs - tick.atMs < 700 && heldKeys(shown!).includes('early');
        });
        await acting.call('DELETE', '/v1/keys/early/hold');
        await until(() => !heldKeys(stream.events.at(-1)!).includes('early'));
      }
    } finally {
      await other.close();
    }
  });

  it('costs one read per second for 20 viewers, and none without any', async () => {
    const store = replica.app.nest.get(LiveStore);
    const read = store.read.bind(store);
    let reads = 0;
    store.read = (rates) => {
      reads += 1;
      return read(rates);
    };
    const cookies = await Promise.all([ADMIN_KEY, READ_KEY].map((key) => cookieOf(replica, key)));
    const owners = [
      { authorization: `Bearer ${READ_KEY}` },
      { authorization: `Bearer ${ADMIN_KEY}` },
      ...cookies.map((cookie) => ({ cookie })),
    ];
    const viewers = await Promise.all(
      owners.flatMap((owner) => Array.from({ length: 5 }, () => watch(replica, owner))),
    );
    await until(() => viewers.every(({ events }) => events.length >= 1));
    const before = reads;
    const startedAt = performance.now();
    await until(() => viewers.every(({ events }) => events.length >= 5));
    const seconds = (performance.now() - startedAt) / 1000;
    expect(reads - before).toBeLessThanOrEqual(Math.ceil(seconds) + 1);

    for (const viewer of viewers) viewer.close();
    await until(() => replica.app.nest.get(LiveStreams).size === 0);
    const after = reads;
    // A tick that is due now finds nobody.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(reads - after).toBeLessThanOrEqual(1);
    store.read = read;
  });

  it('is limited to 8 per session, and not for callers without the scope', async () => {
    const cookie = await cookieOf(replica, READ_KEY);
    const open = await Promise.all(Array.from({ length: 8 }, () => watch(replica, { cookie })));
    expect(open.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
    const refused = await replica.call('GET', '/v1/live', { key: null, headers: { cookie } });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '10']);
    expect((await watch(replica)).status).toBe(200);
    open[0]!.close();
    await until(async () => {
      const again = await watch(replica, { cookie });
      return again.status === 200;
    });
    expect((await replica.call('GET', '/v1/live', { key: PRODUCE_KEY })).status).toBe(403);
    expect((await replica.call('GET', '/v1/live', { key: null })).status).toBe(401);
    expect((await replica.call('HEAD', '/v1/live')).status).toBe(200);
  });

  it('is limited to 100 per API key, which a proxy adds for many people, whatever cookies are sent with it', async () => {
    const withCookie = (n: number) => ({
      authorization: `Bearer ${ADMIN_KEY}`,
      cookie: `sluice_session=${n}`,
    });
    const open = await Promise.all(Array.from({ length: 100 }, (_, n) => watch(replica, withCookie(n))));
    expect(open.map(({ status }) => status)).toEqual(Array.from({ length: 100 }, () => 200));
    const refused = await replica.call('GET', '/v1/live', { headers: withCookie(101) });
    expect(refused.status).toBe(429);
    for (const viewer of open) viewer.close();
    await until(() => replica.app.nest.get(LiveStreams).size === 0);
  });

  it('ends within 5 s when its API key is revoked', async () => {
    const created = await replica.call('POST', '/v1/api-keys', {
      body: { name: 'viewer', scopes: ['read'] },
    });
    const byKey = await watch(replica, { authorization: `Bearer ${created.body.key}` });
    const bySession = await watch(replica, { cookie: await cookieOf(replica, created.body.key) });
    const stays = await watch(replica);
    await until(() => byKey.events.length > 0 && bySession.events.length > 0);
    const at = performance.now();
    await replica.call('DELETE', `/v1/api-keys/${created.body.id}`);
    await Promise.all([byKey.ended, bySession.ended]);
    expect(performance.now() - at).toBeLessThan(5_000);
    expect(stays.isEnded).toBe(false);
  });

  it('skips a viewer that does not read, and no other waits for it', async () => {
    // Large snapshots, so that the buffers between the two are full soon.
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason, note)
       SELECT 'inbox', n::text, 0, 'infinity', 'operator', repeat('x', 40000) FROM generate_series(1, 100) AS n`,
    );
    const [slow, quick] = [await watch(replica), await watch(replica)];
    slow.pause();
    await until(() => quick.events.length >= 6);
    const last = quick.events.at(-1)!;
    slow.resume();
    // What it missed was not kept for it: it goes on with the newest.
    await until(() => slow.events.some(({ data }) => data.at > last.data.at));
    const upTo = (stream: EventStream) => stream.events.filter(({ data }) => data.at <= last.data.at).length;
    expect(upTo(slow)).toBeLessThan(upTo(quick));
    await database.query(`DELETE FROM hold WHERE note LIKE 'xxx%'`);
  });

  it('does not count as a slow request', async () => {
    const stream = await watch(replica);
    await until(() => stream.events.length > 0);
    stream.close();
    await until(() => replica.app.nest.get(LiveStreams).size === 0);
    expect(await metricsText(replica)).not.toMatch(
      /http_request_seconds_count\{method="GET",route="\/v1\/live",status="2xx"/,
    );
  });
});

describe('the live stream of a replica that stops', () => {
  const { database } = sharedReplica({ ROLES: 'api' });

  it('ends at once, and does not delay the stop', async () => {
    const leaving = await startApp(database, { ROLES: 'api', DRAIN_GRACE: '2s' });
    const open = await Promise.all([watch(leaving), watch(leaving)]);
    await until(() => open.every(({ events }) => events.length > 0));
    const at = performance.now();
    const closed = leaving.close();
    await Promise.all(open.map(({ ended }) => ended));
    expect(performance.now() - at).toBeLessThan(1_000);
    // In the grace it still serves, but no stream.
    expect((await leaving.call('GET', '/v1/live')).status).toBe(503);
    await closed;
    expect(performance.now() - at).toBeLessThan(4_000);
  });
});

describe('the live stream while the database is away', () => {
  const { proxy, replica } = sharedReplicaBehindProxy({ ROLES: 'api' });

  it('reports the outage every second, stays, and catches up', async () => {
    const stream = await watch(replica);
    await until(() => stream.events.length >= 1);
    proxy.holdResponses();
    await until(() => stream.events.filter(({ event }) => event === 'outage').length >= 3);
    const outages = stream.events.filter(({ event }) => event === 'outage');
    expect(outages[0]!.data).toEqual({ at: expect.stringMatching(/Z$/), detail: expect.any(String) });
    const { length } = stream.events;
    proxy.releaseResponses();
    await until(() => stream.events.slice(length).some(({ event }) => event === 'snapshot'));
    expect(stream.isEnded).toBe(false);
  });
});
