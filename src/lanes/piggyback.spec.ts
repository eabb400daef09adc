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

/** Stores a message and takes its lane along. */
async function postAlong({ database: own, queue }: TestReplica, key: string) {
  const along = queue.piggyback([7], ONE);
  const [, , ...answers] = await own.inOneRoundTrip([
    [posting(key)],
    [FORCE_INDEX_PLANS],
    ...along.statements,
  ]);
  return { along, leased: along.leased(answers) };
}

const positions = (rows: readonly TestRow[]) => rows.map(({ position }) => position);
const stored = () => database.query('SELECT status, attempt::int AS attempt FROM inbox ORDER BY position');
const isFree = async () =>
  (await database.query('SELECT FROM lane WHERE lane = 7 AND token IS NULL AND queue = $1', ['inbox']))
    .length === 1;

describe('a lane that goes along with the transaction that writes to it', () => {
  it('is leased, and what was written claimed, with its commit', async () => {
    const { leased } = await postAlong(a, 'k');
    expect(positions(leased!.rows)).toEqual([1]);
    expect(await stored()).toEqual([{ status: 'processing', attempt: 1 }]);
    expect(await b.queue.lease({ hint: [7], ...ONE })).toBeUndefined();
    await a.queue.release(leased!.lease);
  });

  it('has what waited in it before first', async () => {
    await database.query(posting('k'));
    const { leased } = await postAlong(a, 'k');
    expect(positions(leased!.rows)).toEqual([1, 2]);
  });

  it('is left to whoever holds it, and the message is stored nevertheless', async () => {
    await postAlong(b, 'other');
    const { leased } = await postAlong(a, 'k');
    expect(leased).toBeUndefined();
    expect((await stored())[1]).toEqual({ status: 'pending', attempt: 0 });
  });

  it('keeps a message of a held key waiting', async () => {
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason) VALUES ('inbox', 'k', 7, 'infinity', 'operator')`,
    );
    const { leased } = await postAlong(a, 'k');
    expect(leased!.rows).toEqual([]);
    expect(await stored()).toEqual([{ status: 'held', attempt: 0 }]);
  });

  it('is left to a careful look where its last holder died', async () => {
    await database.query(`UPDATE lane SET crashes = 1 WHERE queue = 'inbox' AND lane = 7`);
    expect((await postAlong(a, 'k')).leased).toBeUndefined();
  });

  it('is given back before the next lease where nobody knows whether it was committed', async () => {
    const { along } = await postAlong(a, 'k');
    along.failed(new Error('Connection terminated unexpectedly'));
    expect(await isFree()).toBe(false);
    expect(await a.queue.lease({ hint: [8], ...ONE })).toBeUndefined();
    expect(await isFree()).toBe(true);
    expect(await stored()).toEqual([{ status: 'pending', attempt: 0 }]);
  });

  it('is not taken by a transaction that failed', async () => {
    const along = a.queue.piggyback([7], ONE);
    const failing = a.database.inOneRoundTrip([
      [posting('k')],
      [FORCE_INDEX_PLANS],
      ...along.statements,
      ['SELECT 1 / 0'],
    ]);
    await expect(failing).rejects.toThrow('division by zero');
    expect([await isFree(), await stored()]).toEqual([true, []]);
  });
});

describe('offers', () => {
  it('are open until what became of them is known, and what was taken is done', async () => {
    const offers = new PiggybackLeases<TestRow>();
    let done!: () => void;
    const made = offers.track(
      a.queue.piggyback([7], ONE),
      () => new Promise<void>((resolve) => (done = resolve)),
    );
    const failed = offers.track(a.queue.piggyback([8], ONE), () => undefined);
    expect(offers.size).toBe(2);
    failed.failed(new Error('rolled back'));
    let over = false;
    const all = offers.allSettled().then(() => (over = true));
    made.leased([[{ lane: 7 }], [{ position: null, parked: 0 }]]);
    await new Promise(setImmediate);
    expect([over, offers.size]).toEqual([false, 1]);
    done();
    await all;
    expect(offers.size).toBe(0);
  });
});
