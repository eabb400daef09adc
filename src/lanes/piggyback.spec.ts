import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startReplica, type TestReplica, type TestRow } from '../../test/support/lanes.ts';
import { FORCE_INDEX_PLANS } from '../database/force-index-plans.ts';
import { PiggybackLeases } from './piggyback.ts';

const ONE = { maxLanes: 1, maxRows: 8 };

let database: TestDatabase;
let a: TestReplica;
let b: TestReplica;

beforeAll(async () => {
  database = await createDatabase();
  a = startReplica(database);
  b = startReplica(database);
});
beforeEach(async () => {
  a = { ...a, queue: a.newQueue() };
  await database.query(`DELETE FROM inbox; DELETE FROM hold; ALTER SEQUENCE inbox_position_seq RESTART;
    UPDATE lane SET leased_until = '-infinity', token = NULL, crashes = 0`);
});
afterAll(async () => {
  await Promise.all([a.close(), b.close()]);
  await database.drop();
});

const posting = (key: string) =>
  `INSERT INTO inbox (id, source, type, key, lane, payload) VALUES (gen_random_uuid()::text, 's', 't', '${key}', 7, 'null')`;

/** Stores a message and leases its lane in the same transaction. */
async function postWithLease({ database: own, queue }: TestReplica, key: string) {
  const piggyback = queue.piggyback([7], ONE);
  const [, , ...results] = await own.inOneRoundTrip([
    [posting(key)],
    [FORCE_INDEX_PLANS],
    ...piggyback.statements,
  ]);
  return { piggyback, leased: piggyback.leased(results) };
}

const positions = (rows: readonly TestRow[]) => rows.map(({ position }) => position);
const stored = () => database.query('SELECT status, attempt::int AS attempt FROM inbox ORDER BY position');
const isFree = async () =>
  (await database.query('SELECT FROM lane WHERE lane = 7 AND token IS NULL AND queue = $1', ['inbox']))
    .length === 1;

describe('a piggyback lease', () => {
  it('leases the lane and claims the written message in the same transaction', async () => {
    const { leased } = await postWithLease(a, 'k');
    expect(positions(leased!.rows)).toEqual([1]);
    expect(await stored()).toEqual([{ status: 'processing', attempt: 1 }]);
    expect(await b.queue.lease({ hint: [7], ...ONE })).toBeUndefined();
    await a.queue.release(leased!.lease);
  });

  it('claims messages that waited in the lane first', async () => {
    await database.query(posting('k'));
    const { leased } = await postWithLease(a, 'k');
    expect(positions(leased!.rows)).toEqual([1, 2]);
  });

  it('leaves a leased lane to its owner, and the message is stored nevertheless', async () => {
    await postWithLease(b, 'other');
    const { leased } = await postWithLease(a, 'k');
    expect(leased).toBeUndefined();
    expect((await stored())[1]).toEqual({ status: 'pending', attempt: 0 });
  });

  it('keeps a message of a held key waiting', async () => {
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason) VALUES ('inbox', 'k', 7, 'infinity', 'operator')`,
    );
    const { leased } = await postWithLease(a, 'k');
    expect(leased!.rows).toEqual([]);
    expect(await stored()).toEqual([{ status: 'held', attempt: 0 }]);
  });

  it('leaves a lane to a normal lease if its last owner crashed', async () => {
    await database.query(`UPDATE lane SET crashes = 1 WHERE queue = 'inbox' AND lane = 7`);
    expect((await postWithLease(a, 'k')).leased).toBeUndefined();
  });

  it('is given back before the next lease if it is unknown whether it was committed', async () => {
    const { piggyback } = await postWithLease(a, 'k');
    piggyback.failed(new Error('Connection terminated unexpectedly'));
    expect(await isFree()).toBe(false);
    expect(await a.queue.lease({ hint: [8], ...ONE })).toBeUndefined();
    expect(await isFree()).toBe(true);
    expect(await stored()).toEqual([{ status: 'pending', attempt: 0 }]);
  });

  it('leases nothing when the transaction fails', async () => {
    const piggyback = a.queue.piggyback([7], ONE);
    const failing = a.database.inOneRoundTrip([
      [posting('k')],
      [FORCE_INDEX_PLANS],
      ...piggyback.statements,
      ['SELECT 1 / 0'],
    ]);
    await expect(failing).rejects.toThrow('division by zero');
    expect([await isFree(), await stored()]).toEqual([true, []]);
  });
});

describe('piggyback leases', () => {
  it('are open until their outcome is known and the claimed rows are processed', async () => {
    const piggybacks = new PiggybackLeases<TestRow>();
    let done!: () => void;
    const made = piggybacks.track(
      a.queue.piggyback([7], ONE),
      () => new Promise<void>((resolve) => (done = resolve)),
    );
    const failed = piggybacks.track(a.queue.piggyback([8], ONE), () => undefined);
    expect(piggybacks.size).toBe(2);
    failed.failed(new Error('rolled back'));
    let over = false;
    const all = piggybacks.allSettled().then(() => (over = true));
    made.leased([[{ lane: 7 }], [{ position: null, parked: 0 }]]);
    await new Promise(setImmediate);
    expect([over, piggybacks.size]).toEqual([false, 1]);
    done();
    await all;
    expect(piggybacks.size).toBe(0);
  });
});
