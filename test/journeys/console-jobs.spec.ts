import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ReplayStore } from '../../src/outbox/replay/replay-store.ts';
import { DeadLetterActionStore } from '../../src/upkeep/dead-letters/dead-letter-action-store.ts';
import { READ_KEY, type TestApp } from '../support/app.ts';
import { ok, type Receiver, status } from '../support/receiver.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;
/** Serves and delivers, but runs no jobs: a test runs their steps. */
let one: TestApp;
const SINCE = '2020-01-01T00:00:00Z';

beforeAll(async () => {
  cluster = await TestCluster.open({ ROLES: 'api,inbox,outbox' });
  one = cluster.replica;
});
afterAll(() => cluster.close());

const get = (path: string) => one.call('GET', path, { key: READ_KEY });

/** A listener with dead letters of three keys: three of `a`, one each of `b` and `c`. */
async function deadLetters(name: string): Promise<Receiver> {
  const receiver = await cluster.listen(
    name,
    { terminalStatuses: [400], onDead: 'skip', lanes: 1 },
    status(400),
  );
  const keys = ['a', 'a', 'a', 'b', 'c'];
  await cluster.post(...keys.map((key) => ({ type: `${name}/x`, key })));
  await until(async () => (await cluster.counts(name)).dead === keys.length);
  receiver.respond = ok;
  receiver.received.splice(0);
  return receiver;
}

describe('a revive', () => {
  it('that is cancelled leaves what it has not begun, and completes the key that it has begun', async () => {
    const receiver = await deadLetters('revived');
    const filter = { listener: 'revived' };
    const { body: started } = await cluster.call('POST', '/v1/dead-letters/revive', { filter });
    const step = await one.app.nest.get(DeadLetterActionStore).step(Number(started.id), 2, 500);
    expect(step).toMatchObject({ kind: 'changed', rows: 2 });

    const path = `/v1/dead-letters/rulings/${started.id}`;
    const cancelled = await cluster.call('POST', `${path}/cancel`);
    expect([cancelled.status, cancelled.body]).toEqual([
      200,
      expect.objectContaining({ status: 'running', done: 2, skipped: 2, remaining: 1, cancelledBy: 'admin' }),
    ]);
    expect(receiver.received).toHaveLength(0);

    const worker = await cluster.start({ ROLES: 'upkeep' });
    const ended = await until(async () => {
      const { body } = await get(path);
      return body.status === 'cancelled' ? body : undefined;
    });
    expect(ended).toMatchObject({ matched: 5, done: 3, skipped: 2, remaining: 0, ended: 3 });
    expect(receiver.received).toHaveLength(3);
    expect((await cluster.counts('revived')).dead).toBe(2);
    expect((await cluster.call('POST', `${path}/cancel`)).status).toBe(409);
    await cluster.stop(worker);
    const [entry] = (await get('/v1/audit?action=dead-letters.*')).body.items;
    expect(entry).toMatchObject({ action: 'dead-letters.cancel', target: `revive ${started.id}`, count: 2 });
  });

  it('is listed with its progress, newest first, unless it was of a single dead letter', async () => {
    const { items: dead } = (await get('/v1/dead-letters?listener=revived')).body;
    await cluster.call('POST', `/v1/dead-letters/${dead[0].id}/revive`);
    const newer = await cluster.call('POST', '/v1/dead-letters/discard', {
      filter: { listener: 'revived' },
      reason: 'a test',
    });
    const { items, next } = (await get('/v1/dead-letters/rulings')).body;
    expect(items.map(({ id, kind }: { id: string; kind: string }) => [id, kind])).toEqual([
      [newer.body.id, 'discard'],
      [expect.any(String), 'revive'],
    ]);
    expect(items[0]).toEqual((await get(`/v1/dead-letters/rulings/${newer.body.id}`)).body);
    expect(next).toBeNull();
    const first = (await get('/v1/dead-letters/rulings?limit=1')).body;
    const second = (await get(`/v1/dead-letters/rulings?limit=1&cursor=${first.next}`)).body;
    expect([first.items[0].id, second.items[0].id]).toEqual([items[0].id, items[1].id]);
    expect((await cluster.call('POST', '/v1/dead-letters/rulings/999/cancel')).status).toBe(404);
    expect((await cluster.call('POST', '/v1/dead-letters/rulings/x/cancel')).status).toBe(404);
  });
});

describe('a replay', () => {
  it('is counted before it is started, without sending anything', async () => {
    const receiver = await deadLetters('counted');
    const count = async (body: object) => {
      const response = await cluster.call('POST', '/v1/listeners/counted/replay', { ...body, dryRun: true });
      return [response.status, response.body];
    };
    expect(await count({ since: SINCE })).toEqual([200, { matched: 5, more: false, dryRun: true }]);
    expect(await count({ since: SINCE, keys: ['a'] })).toEqual([
      200,
      { matched: 3, more: false, dryRun: true },
    ]);
    expect(await count({ since: SINCE, until: SINCE })).toEqual([
      200,
      { matched: 0, more: false, dryRun: true },
    ]);
    expect((await get('/v1/replays?listener=counted')).body.items).toEqual([]);
    expect(receiver.received).toHaveLength(0);
  });

  it('that is cancelled leaves what it has not begun, and completes the key that it has begun', async () => {
    const receiver = await deadLetters('replayed');
    const { body: started } = await cluster.call('POST', '/v1/listeners/replayed/replay', { since: SINCE });
    const store = one.app.nest.get(ReplayStore);
    const step = await store.step(Number(started.id), { selected: 100, deliveries: 2, inFlight: 500 });
    expect(step).toMatchObject({ kind: 'changed', rows: 2 });

    const path = `/v1/listeners/replayed/replays/${started.id}`;
    const cancelled = await cluster.call('POST', `${path}/cancel`);
    expect([cancelled.status, cancelled.body]).toEqual([
      200,
      expect.objectContaining({ status: 'running', matched: 3, waiting: 3, cancelledBy: 'admin' }),
    ]);
    const worker = await cluster.start({ ROLES: 'upkeep' });
    const ended = await until(async () => {
      const { body } = await get(path);
      return body.status === 'cancelled' ? body : undefined;
    });
    expect(ended).toMatchObject({ listener: 'replayed', matched: 3, sent: 3, waiting: 0 });
    expect(receiver.received).toHaveLength(3);
    expect((await cluster.call('POST', `${path}/cancel`)).status).toBe(409);
    await cluster.stop(worker);

    const { items } = (await get('/v1/replays')).body;
    expect(items[0]).toEqual(ended);
    expect((await get('/v1/replays?listener=replayed')).body.items).toEqual([ended]);
    expect((await get('/v1/replays?listener=nobody')).status).toBe(404);
    expect((await cluster.call('POST', '/v1/listeners/replayed/replays/999/cancel')).status).toBe(404);
  });

  it('that is cancelled while it is selected sends nothing', async () => {
    const receiver = await deadLetters('selected');
    const { body: started } = await cluster.call('POST', '/v1/listeners/selected/replay', { since: SINCE });
    await cluster.database.query(
      `UPDATE replay SET select_from = 0, select_to = 1000000, done_at = 'infinity' WHERE id = $1`,
      [started.id],
    );
    const path = `/v1/listeners/selected/replays/${started.id}`;
    expect((await cluster.call('POST', `${path}/cancel`)).body).toMatchObject({ matched: 0, waiting: 0 });
    const worker = await cluster.start({ ROLES: 'upkeep' });
    await until(async () => (await get(path)).body.status === 'cancelled');
    await cluster.stop(worker);
    expect(receiver.received).toHaveLength(0);
  });
});
