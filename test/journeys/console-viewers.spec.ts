import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LiveStreams } from '../../src/upkeep/live/live-streams.ts';
import { ADMIN_KEY, READ_KEY } from '../support/app.ts';
import { REPEATED, type Repeated } from '../support/console-repeats.ts';
import { type EventStream, openEventStream } from '../support/event-stream.ts';
import { sharedReplica, sharedReplicaBehindProxy } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const PER_OWNER = 8;
const MAX_STREAMS = 200;
const WINDOW_MS = 4_000;

const streams: EventStream[] = [];
const timers: NodeJS.Timeout[] = [];
const { proxy, replica } = sharedReplicaBehindProxy({ ROLES: 'api' });
const keys: string[] = [];

beforeAll(async () => {
  for (let number = 0; number < MAX_STREAMS / PER_OWNER; number += 1) {
    const body = { name: `viewers-${number}`, scopes: ['read'] };
    keys.push((await replica.call('POST', '/v1/api-keys', { body })).body.key);
  }
});
afterEach(async () => {
  for (const timer of timers.splice(0)) clearInterval(timer);
  for (const stream of streams.splice(0)) stream.close();
  await until(() => replica.app.nest.get(LiveStreams).size === 0);
});

async function openedAs(key: string): Promise<EventStream> {
  const stream = await openEventStream(`${replica.url}/v1/live`, { authorization: `Bearer ${key}` });
  streams.push(stream);
  return stream;
}

/** As many viewers as `count` in all, who come one after the other, each with a stream, and with requests that it repeats by its own clock. */
async function open(count: number, repeated: readonly Repeated[]) {
  while (streams.length < count) {
    const key = keys[Math.floor(streams.length / PER_OWNER)]!;
    expect((await openedAs(key)).status).toBe(200);
    for (const [path, seconds] of repeated) {
      const repeat = (maxAge: number) =>
        replica.call('GET', path, { key, headers: { 'cache-control': `max-age=${maxAge}` } });
      await repeat(0);
      timers.push(setInterval(() => void repeat(seconds), seconds * 1_000));
    }
  }
  await until(() => streams.every(({ events }) => events.length > 0));
}

interface Cost {
  readonly snapshots: number;
  /** Transactions for snapshots. */
  readonly observations: number;
  readonly statements: number;
}

/** What reaches the database while it is watched. */
async function costOf(run: () => Promise<void>): Promise<Cost> {
  const before = proxy.statements.length;
  const snapshots = streams[0]?.events.length ?? 0;
  await run();
  const sent = proxy.statements.slice(before);
  return {
    snapshots: (streams[0]?.events.length ?? 0) - snapshots,
    observations: sent.filter((sql) => sql.includes('most_keys')).length,
    statements: sent.length,
  };
}

const watched = () => new Promise<void>((resolve) => setTimeout(resolve, WINDOW_MS));

describe('E15 the cost of viewers', () => {
  it.each([
    ['Now', REPEATED['#/now']!],
    ['Dead letters', REPEATED['#/dead-letters']!],
  ])('on %s is one round trip per second, for 200 as for one', async (screen, repeated) => {
    const none = await costOf(watched);
    expect(none.observations).toBe(0);
    const costs: Cost[] = [];
    for (const count of [1, 20, 200]) {
      await open(count, repeated);
      costs.push(await costOf(watched));
    }
    const perSecond = ({ statements }: Cost) => (statements - none.statements) / (WINDOW_MS / 1_000);
    process.stderr.write(
      `${screen}: statements per second without viewers ${none.statements / (WINDOW_MS / 1_000)}; more with 1, 20, 200: ${costs.map(perSecond).join(', ')}\n`,
    );
    for (const { observations, snapshots } of costs) {
      expect(observations).toBeLessThanOrEqual(snapshots + 1);
      expect(observations).toBeLessThanOrEqual(WINDOW_MS / 1_000 + 1);
    }
    // A transaction for each snapshot, and a repeated request now and then: not one statement for each viewer.
    const [one, , many] = costs.map(perSecond) as [number, number, number];
    expect(many).toBeLessThanOrEqual(one + 5);
  });

  it('is bounded by the number of streams', async () => {
    await open(MAX_STREAMS, []);
    const refused = await replica.call('GET', '/v1/live', { key: READ_KEY });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '10']);
    expect(refused.body.detail).toContain('200 live streams');
    streams.pop()!.close();
    await until(async () => (await openedAs(ADMIN_KEY)).status === 200);
  });
});

describe('a repeated request', () => {
  const { replica: other } = sharedReplica({ ROLES: 'api' });
  const aged = (path: string, key: string, maxAge = 60) =>
    other.call('GET', path, { key, headers: { 'cache-control': `max-age=${maxAge}` } });

  it('may be older than what others have changed, unless its age is not accepted', async () => {
    expect((await aged('/v1/holds', READ_KEY, 0)).body.items).toEqual([]);
    await other.call('PUT', '/v1/keys/k/hold', { body: { reason: 'x' } });
    const old = await aged('/v1/holds', READ_KEY);
    expect([old.body.items, Number(old.headers.get('age'))]).toEqual([[], expect.any(Number)]);
    expect((await other.call('GET', '/v1/holds')).body.items).toHaveLength(1);
    expect((await aged('/v1/holds', READ_KEY, 0)).body.items).toHaveLength(1);
  });

  it('shows a reader nothing of what an admin sees', async () => {
    const url = 'https://partner.example/hook?token=secret';
    await other.call('PUT', '/v1/listeners/l', { body: { types: ['x'], url } });
    expect((await aged('/v1/listeners/l', ADMIN_KEY, 0)).text).toContain('secret');
    expect((await aged('/v1/listeners/l', READ_KEY)).text).not.toContain('token=secret');
  });

  it('returns the message of its own caller, as exactly the text that is stored', async () => {
    const post = (key: string, payload: string) =>
      other.call('POST', '/v1/messages', {
        key,
        body: `{"id":"same","type":"t","key":"k","payload":${payload}}`,
      });
    await post(ADMIN_KEY, '1.0');
    const first = await aged('/v1/messages/same', ADMIN_KEY, 0);
    const again = await aged('/v1/messages/same', ADMIN_KEY);
    expect([again.text, again.headers.get('content-type')]).toEqual([
      first.text,
      'application/json; charset=utf-8',
    ]);
    expect(again.text).toContain('"payload":1.0');
    const { body } = await other.call('POST', '/v1/api-keys', { body: { name: 'two', scopes: ['admin'] } });
    await post(body.key, '2.0');
    expect((await aged('/v1/messages/same', body.key)).text).toContain('"payload":2.0');
  });
});
