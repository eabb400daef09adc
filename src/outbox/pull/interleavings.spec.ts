import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { TestCluster } from '../../../test/support/test-cluster.ts';
import { TestQueue } from '../../../test/support/test-queue.ts';
import { until } from '../../../test/support/until.ts';
import { HAND_OUT, LOCK_ALL_LANES, LOCK_FREE_LANES, PULL_SETTINGS } from './hand-out.sql.ts';
import { LOCK_LEASES, SETTLE, SETTLE_SETTINGS } from './lease.sql.ts';
import { type LeaseRef, leaseText, parseLease } from './lease-token.ts';

/*
 * Two transactions at a time, stopped where it matters. A random run meets these moments rarely; each of them lost a key for
 * ever, or handed out two of its messages, when its guard was missing.
 */

let cluster: TestCluster;
const clients: pg.Client[] = [];

beforeAll(async () => {
  cluster = await TestCluster.open();
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.end();
  await cluster.clear();
});
afterAll(() => cluster.close());

/** A transaction that does what a store does, but ends when the test says so. */
class OpenTransaction {
  private constructor(private readonly client: pg.Client) {}

  static async begin(settings: string): Promise<OpenTransaction> {
    const client = new pg.Client({ connectionString: cluster.database.url });
    clients.push(client);
    await client.connect();
    await client.query('BEGIN');
    await client.query(settings);
    return new OpenTransaction(client);
  }

  /** Reads four deliveries of a lane. */
  async pull(listener: number, lockLanes = LOCK_FREE_LANES): Promise<LeaseRef[]> {
    const token = randomUUID();
    await this.client.query(lockLanes, [listener]);
    const values = [listener, 2, 1_000_000, token, 60_000, 1_000, null, null, 0, true];
    const { rows } = await this.client.query(HAND_OUT, values);
    return rows
      .filter(({ position }) => position !== null)
      .map(({ lane, position, attempt }) => ({ lane, position: Number(position), attempt, token }));
  }

  async acknowledge({ lane, position, attempt, token }: LeaseRef): Promise<string> {
    await this.client.query(LOCK_LEASES, [[lane], [position]]);
    const values = [[lane], [position], [attempt], [token], ['finish'], [false], [null], [null], [null]];
    const { rows } = await this.client.query(SETTLE, values);
    return rows[0].outcome;
  }

  async commit(): Promise<void> {
    await this.client.query('COMMIT');
  }
}

/** Ten messages of one key, in the only lane; the first is in flight. */
async function queueWithOneInFlight(name: string) {
  const queue = await TestQueue.open(cluster, name, { lanes: 1, lease: '1h' });
  await queue.post(...Array.from({ length: 10 }, () => 'a'));
  const [message] = await queue.consumer.pull();
  return { queue, listener: await cluster.numberOf(name), inFlight: parseLease(message!.lease)! };
}

const parked = async (name: string) => (await cluster.counts(name)).held ?? 0;

/** Whether a statement of another transaction is waiting for a lock. */
const isWaiting = async () =>
  (
    await cluster.database.query(`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                                   AND datname = current_database()`)
  ).length > 0;

describe('a message is settled while a pull meets others of its key', () => {
  it('the pull parks nothing behind a lease that is being ended: nobody would release it', async () => {
    const { queue, listener, inFlight } = await queueWithOneInFlight('ending');
    const settling = await OpenTransaction.begin(SETTLE_SETTINGS);
    expect(await settling.acknowledge(inFlight)).toBe('done');
    const pulling = await OpenTransaction.begin(PULL_SETTINGS);
    expect(await pulling.pull(listener)).toEqual([]);
    await pulling.commit();
    await settling.commit();
    expect(await parked('ending')).toBe(0);
    expect((await queue.consumer.pull()).map(({ sequence }) => sequence)).toEqual([2]);
  });

  it('what the pull has parked is released by the settlement that waited for it', async () => {
    const { queue, listener, inFlight } = await queueWithOneInFlight('parking');
    const pulling = await OpenTransaction.begin(PULL_SETTINGS);
    expect(await pulling.pull(listener)).toEqual([]);
    const settling = await OpenTransaction.begin(SETTLE_SETTINGS);
    const settled = settling.acknowledge(inFlight);
    await until(isWaiting);
    await pulling.commit();
    expect(await settled).toBe('done');
    await settling.commit();
    expect(await parked('parking')).toBe(4);
    for (const sequence of [2, 3, 4, 5, 6, 7, 8, 9, 10]) {
      const [next, ...others] = await queue.consumer.pull();
      expect([next?.sequence, others]).toEqual([sequence, []]);
      await queue.consumer.acknowledge(next!);
    }
  });

  it('and is settled twice at a time: only once, whoever comes first', async () => {
    const { queue, inFlight } = await queueWithOneInFlight('raced');
    const settling = await OpenTransaction.begin(SETTLE_SETTINGS);
    expect(await settling.acknowledge(inFlight)).toBe('done');
    const lease = leaseText(inFlight);
    const late = queue.consumer.settle({ reject: [{ lease, reason: 'late' }] });
    await until(isWaiting);
    await settling.commit();
    expect(await late).toEqual(['fenced']);
    expect(await cluster.counts('raced')).toEqual({ finished: 1, pending: 9 });
  });
});

describe('a message is settled while a replay requeues others of its key', () => {
  it('the hold ends with the replay, although the settlement found it in the replay’s hands', async () => {
    const { queue, listener, inFlight } = await queueWithOneInFlight('replayed');
    const pulling = await OpenTransaction.begin(PULL_SETTINGS);
    await pulling.pull(listener);
    await pulling.commit();
    const replaying = new pg.Client({ connectionString: cluster.database.url });
    clients.push(replaying);
    await replaying.connect();
    await replaying.query(
      `BEGIN; UPDATE hold SET kept_by = 'replay 1' WHERE lane / 256 = ${listener} AND reason = 'leased'`,
    );
    const settled = queue.consumer.settle({ acknowledge: [leaseText(inFlight)] });
    await until(isWaiting);
    await replaying.query('COMMIT');
    expect(await settled).toEqual(['done']);
    const holds = () =>
      cluster.database.query(
        `SELECT until, then_until IS NOT NULL AS ends FROM hold WHERE lane / 256 = ${listener}`,
      );
    expect(await holds()).toEqual([{ until: Number.POSITIVE_INFINITY, ends: true }]);
    expect(await queue.consumer.pull()).toEqual([]);
    // What a replay does when it has finished the key.
    await replaying.query(
      `UPDATE hold SET kept_by = NULL, until = then_until, then_until = NULL WHERE lane / 256 = ${listener}`,
    );
    expect((await queue.consumer.pull()).map(({ sequence }) => sequence)).toEqual([2]);
  });
});

describe('two pulls at a time', () => {
  it('the second waits, sees what the first has leased, and hands out nothing of the same key', async () => {
    const queue = await TestQueue.open(cluster, 'pulls', { lanes: 1, maxInFlight: 1 });
    await queue.post('a', 'b');
    const first = await OpenTransaction.begin(PULL_SETTINGS);
    expect(await first.pull(await cluster.numberOf('pulls'))).toHaveLength(2);
    const second = queue.consumer.pull();
    await until(isWaiting);
    await first.commit();
    expect(await second).toEqual([]);
  });

  it('a lane that another transaction has locked is skipped, and waited for if there is nothing else', async () => {
    const queue = await TestQueue.open(cluster, 'skipped', { lanes: 2, ordered: false });
    await queue.post('a', 'b', 'c', 'd');
    const number = await cluster.numberOf('skipped');
    const requeuing = await OpenTransaction.begin('SELECT');
    const locked = 'SELECT FROM lane WHERE queue = $1 AND lane = $2 FOR NO KEY UPDATE';
    await (requeuing as unknown as { client: pg.Client }).client.query(locked, ['outbox', number * 256]);
    const others = await queue.consumer.pull();
    expect(others.map(({ lease }) => parseLease(lease)!.lane)).toEqual([number * 256 + 1, number * 256 + 1]);
    const waiting = queue.consumer.pull();
    await until(isWaiting);
    await requeuing.commit();
    expect(await waiting).toHaveLength(2);
  });

  it('no lane of a listener that has become a webhook is pulled, whatever a replica still has in memory', async () => {
    const queue = await TestQueue.open(cluster, 'changed');
    await queue.post('a');
    await cluster.database.query(`UPDATE lane SET leased_until = '-infinity' WHERE lane / 256 = $1`, [
      await cluster.numberOf('changed'),
    ]);
    const pulling = await OpenTransaction.begin(PULL_SETTINGS);
    expect(await pulling.pull(await cluster.numberOf('changed'), LOCK_ALL_LANES)).toEqual([]);
    await pulling.commit();
  });
});
