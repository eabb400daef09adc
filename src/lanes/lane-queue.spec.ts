import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import {
  alter,
  closedGate,
  inOneSnapshot,
  startReplica,
  type TestReplica,
  type TestRow,
} from '../../test/support/lanes.ts';
import { openSession, untilBlocked } from '../../test/support/session.ts';
import type { LeasedRows } from './lane-queue-types.ts';
import { GUARDS, type Lease, LeaseLost, SUSPECT_AFTER } from './lease.ts';

const BROKEN = new Error('Connection terminated');

let database: TestDatabase;
let a: TestReplica;
let b: TestReplica;

beforeAll(async () => {
  database = await createDatabase();
  await database.query('CREATE TABLE effect (id text)');
  a = startReplica(database);
  b = startReplica(database);
});
beforeEach(async () => {
  a = { ...a, queue: a.newQueue() };
  b = { ...b, queue: b.newQueue() };
  await database.query(`DELETE FROM inbox; DELETE FROM hold; DELETE FROM effect;
    ALTER SEQUENCE inbox_position_seq RESTART;
    UPDATE lane SET leased_until = '-infinity', token = NULL, crashes = 0 WHERE token IS NOT NULL OR crashes > 0`);
});
afterEach(() => {
  Object.assign(GUARDS, { fence: true, settledCount: true });
  jest.restoreAllMocks();
});
afterAll(async () => {
  await Promise.all([a.close(), b.close()]);
  await database.drop();
});

describe('1. a lane has one owner', () => {
  it('leases a lane to no other replica until it is released', async () => {
    await post(7, 'k', 2);
    const first = (await takeLease(a, [7], 1))!;
    expect(await takeLease(b, [7])).toBeUndefined();
    await finish(a, first.lease, first.rows);
    await a.queue.release(first.lease);
    const second = (await takeLease(b, [7]))!;
    expect(positions(second.rows)).toEqual([2]);
    expect(second.lease.token).not.toBe(first.lease.token);
  });

  it('leases different lanes to two replicas at the same moment', async () => {
    for (let lane = 0; lane < 8; lane++) await post(lane, `k${lane}`, 1);
    const both = await Promise.all([takeLease(a, undefined, 4, 4), takeLease(b, undefined, 4, 4)]);
    const lanes = both.flatMap((one) => [...one!.lease.lanes]);
    expect(lanes.sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('does not lease an expired lane while its owner is inside a fenced transaction', async () => {
    await post(7, 'k', 1);
    const { lease, rows } = (await takeLease(a, [7]))!;
    await leasesRunOut();
    await a.database.transaction(async (tx) => {
      await a.queue.fence(lease, [7], tx);
      expect(await takeLease(b, [7])).toBeUndefined();
      await tx.execute(...finishing(rows));
    });
    expect(await statuses()).toEqual(['finished']);
  });

  it('would have two owners if the fence only read the token', async () => {
    await post(7, 'k', 1);
    const { lease } = (await takeLease(a, [7]))!;
    await leasesRunOut();
    await a.database.transaction(async (tx) => {
      const seen = await tx.query('SELECT FROM lane WHERE lane = 7 AND token = $1', [lease.token]);
      expect(seen).toHaveLength(1);
      expect(await takeLease(b, [7])).toBeDefined();
    });
  });
});

describe('2. only the owner changes rows', () => {
  /** A claimed row 1 and froze; B took over, finished 1 and 2 and released. 3 and 4 are pending. */
  async function frozenAndOvertaken(): Promise<Lease> {
    await post(7, 'k', 4);
    const { lease } = (await takeLease(a, [7], 1))!;
    await leasesRunOut();
    const taken = (await takeLease(b, [7], 2))!;
    await finish(b, taken.lease, taken.rows);
    await b.queue.release(taken.lease);
    return lease;
  }

  it('returns nothing to a claim whose lease is lost', async () => {
    const lease = await frozenAndOvertaken();
    expect(await a.queue.claim(lease, 1)).toEqual([]);
    expect(await statuses()).toEqual(['finished', 'finished', 'pending', 'pending']);
  });

  it('returns nothing to a claim whose renewal shows that all its lanes are lost', async () => {
    const lease = await frozenAndOvertaken();
    Object.assign(lease, { renewAtMs: 0, parking: true, more: true });
    expect(await a.queue.claim(lease, 1)).toEqual([]);
    expect([[...lease.lanes], lease.more, lease.parking]).toEqual([[], false, false]);
  });

  it('would leave a row processing in a lane without an owner if the claim did not check the token', async () => {
    alter(a.queue, 'claim', 'AND lane.token = ANY ($2::uuid[])', 'AND $2::uuid[] IS NOT NULL');
    const lease = await frozenAndOvertaken();
    expect(positions(await a.queue.claim(lease, 1))).toEqual([3]);
    expect(await statuses()).toEqual(['finished', 'finished', 'processing', 'pending']);
    expect(await processingInFreeLanes()).toBe(1);
  });

  it.each<[how: string, act: (lease: Lease) => Promise<unknown>]>([
    ['giveBack', (lease) => a.queue.giveBack(lease)],
    ['abandon', (lease) => a.queue.abandon(lease, BROKEN)],
    ['release', (lease) => a.queue.release(lease)],
  ])('ignores a %s by a replica that lost the lane', async (_how, act) => {
    await post(7, 'k', 2);
    const { lease } = (await takeLease(a, [7]))!;
    await leasesRunOut();
    const taken = (await takeLease(b, [7]))!;
    const before = await rowsAndLane(7);
    await act(lease);
    expect(await rowsAndLane(7)).toEqual(before);
    await finish(b, taken.lease, taken.rows);
  });

  it('counts a lost lane once, whether a renewal or a fence notices it', async () => {
    const lost: number[] = [];
    a = { ...a, queue: a.newQueue({ onLost: (lanes) => lost.push(lanes) }) };
    await post(7, 'k', 1);
    await post(8, 'l', 1);
    const { lease } = (await takeLease(a, [7, 8]))!;
    await leasesRunOut();
    await takeLease(b, [7]);
    expect(await a.queue.renew(lease)).toBe(false);
    expect([...lease.lanes]).toEqual([8]);
    expect(await a.queue.renew(lease)).toBe(true);
    a.queue.lose(lease, [7]);
    expect(lost).toEqual([1]);
  });

  describe.each<[how: 'inOneRoundTrip' | 'transaction', act: (lease: Lease) => Promise<unknown>]>([
    ['inOneRoundTrip', (lease) => a.queue.release(lease)],
    ['transaction', (lease) => a.queue.giveBack(lease)],
  ])('a lane that the replica releases itself (%s)', (how, act) => {
    it('is not counted as lost when it is renewed meanwhile', async () => {
      const lost: number[] = [];
      a = { ...a, queue: a.newQueue({ onLost: (lanes) => lost.push(lanes) }) };
      await post(7, 'k', 1);
      const { lease } = (await takeLease(a, [7]))!;
      const commit = a.database[how] as (...work: unknown[]) => Promise<never>;
      jest.spyOn(a.database, how).mockImplementationOnce(async (...work: unknown[]) => {
        const result = await commit.apply(a.database, work);
        await a.queue.renew(lease, [7]);
        return result;
      });
      await act(lease);
      expect([lost, [...lease.lanes], await freeLanes()]).toEqual([[], [], 256]);
    });

    it('stays leased if the release fails', async () => {
      await post(7, 'k', 1);
      const { lease } = (await takeLease(a, [7]))!;
      jest.spyOn(a.database, how).mockRejectedValueOnce(BROKEN);
      await expect(act(lease)).rejects.toBe(BROKEN);
      expect([...lease.lanes]).toEqual([7]);
    });
  });

  /**
   * A claims, having lost its lane, and sees a due hold that B, the owner, is clearing away meanwhile.
   * The gate is between A's snapshot and its read of the lane.
   */
  async function claimWithoutLease(): Promise<void> {
    await post(7, 'k', 1);
    const { lease } = (await takeLease(a, [7], 1))!;
    await leasesRunOut();
    const taken = (await takeLease(b, [7], 1))!;
    await finish(b, taken.lease, taken.rows);
    await hold(b, taken.lease, 7, 'k', 0);
    await post(7, 'k', 1);
    const gate = await closedGate(database);
    alter(a.queue, 'claim', 'SELECT lane.lane FROM lane', `SELECT lane.lane FROM ${gate.sql} AS gate, lane`);
    alter(a.queue, 'claim', 'ORDER BY lane.lane FOR NO KEY UPDATE', 'FOR NO KEY UPDATE OF lane');
    const claiming = a.queue.claim(lease, 8);
    await gate.reached();
    alter(
      b.queue,
      'claim',
      /parked AS \([\s\S]*?RETURNING position\s*\)/,
      'parked AS (SELECT position FROM ready WHERE false)',
    );
    await b.queue.claim(taken.lease, 1);
    await gate.open();
    await claiming;
  }

  it('parks nothing for a claim whose lease is lost', async () => {
    await claimWithoutLease();
    expect(await heldWithoutHold()).toBe(0);
  });

  it('would leave a row held without a hold, forever, if a replica that is not the owner parked rows', async () => {
    alter(a.queue, 'claim', 'AND lane.token = ANY ($2::uuid[])', 'AND $2::uuid[] IS NOT NULL');
    await claimWithoutLease();
    expect(await heldWithoutHold()).toBe(1);
  });

  /** While a hold is deleted, a transaction that saw the hold stores a message of its key. */
  async function postWhileHoldIsCleared(columns: { status: string; waits: string | null }): Promise<void> {
    await post(7, 'k', 1);
    const { lease, rows } = (await takeLease(a, [7]))!;
    await finish(a, lease, rows);
    await hold(a, lease, 7, 'k', 0);
    await b.database.transaction(async (tx) => {
      const [held] = await tx.query<{ n: number }>('SELECT count(*) AS n FROM hold');
      expect(held).toEqual({ n: 1 });
      await tx.execute(
        `INSERT INTO inbox (id, source, type, key, lane, payload, status, waits)
         VALUES ('late', 's', 't', 'k', 7, 'null', $1, $2)`,
        [columns.status, columns.waits],
      );
      expect(await a.queue.claim(lease, 8)).toEqual([]);
    });
    await a.queue.release(lease);
  }

  it('skips rows that another transaction ended while the claim waited', async () => {
    await post(7, 'k', 3);
    const { lease, rows } = (await takeLease(a, [7], 1))!;
    await finish(a, lease, rows);
    const standIn = await openSession(database);
    await standIn.query('BEGIN; SELECT FROM lane WHERE lane = 7 FOR NO KEY UPDATE');
    await standIn.query(
      `UPDATE inbox SET status = 'expired', settled_at = now(), lapsed_at = now() WHERE position = 2`,
    );
    const claiming = a.queue.claim(lease, 10);
    await untilBlocked(database);
    await standIn.query('COMMIT');
    await standIn.close();
    expect(positions(await claiming)).toEqual([3]);
    expect(await statuses()).toEqual(['finished', 'expired', 'processing']);
  });

  it('lets only the owner park new messages', async () => {
    await postWhileHoldIsCleared({ status: 'pending', waits: null });
    const { rows } = (await takeLease(b, [7]))!;
    expect(ids(rows)).toEqual(['late']);
  });

  it('would never claim a message that ingest parked', async () => {
    await postWhileHoldIsCleared({ status: 'held', waits: 'held' });
    expect(await heldWithoutHold()).toBe(1);
    expect(await takeLease(b, [7])).toBeUndefined();
  });
});

describe('3. the fence', () => {
  it('rejects the work of a replica that was frozen past its lease', async () => {
    await post(7, 'k', 2);
    const frozen = (await takeLease(a, [7]))!;
    await leasesRunOut();
    const taken = (await takeLease(b, [7]))!;
    await finish(b, taken.lease, taken.rows);

    await expect(finish(a, frozen.lease, frozen.rows)).rejects.toEqual(new LeaseLost([7]));
    expect(await effects()).toEqual(['7-k-1', '7-k-2']);
  });

  it('would let everything be applied twice if it were removed', async () => {
    GUARDS.fence = false;
    await post(7, 'k', 2);
    const frozen = (await takeLease(a, [7]))!;
    await leasesRunOut();
    const taken = (await takeLease(b, [7]))!;
    await finish(b, taken.lease, taken.rows);

    await finish(a, frozen.lease, frozen.rows);
    expect(await effects()).toEqual(['7-k-1', '7-k-1', '7-k-2', '7-k-2']);
  });

  it('returns the lanes that were lost, and only those', async () => {
    await post(7, 'k', 1);
    await post(8, 'l', 1);
    const { lease } = (await takeLease(a, [7, 8]))!;
    await leasesRunOut();
    await takeLease(b, [7]);
    const fencing = a.database.transaction((tx) => a.queue.fence(lease, [7, 8], tx));
    await expect(fencing).rejects.toEqual(new LeaseLost([7]));
  });

  it('accepts an expired lease if no other replica took the lane', async () => {
    await post(7, 'k', 1);
    const { lease, rows } = (await takeLease(a, [7]))!;
    await leasesRunOut();
    await finish(a, lease, rows);
    expect(await statuses()).toEqual(['finished']);
  });
});

describe('4. the claim sees what the previous owner did', () => {
  /**
   * A's lease ran out while it works on row 1; B has started its lease when A puts row 1 behind a hold and commits.
   * The gate is between the start of B's lease statement and the lane.
   */
  async function leaseWhileTheHolderCommits(): Promise<LeasedRows<TestRow> | undefined> {
    await post(7, 'k', 2);
    const { lease, rows } = (await takeLease(a, [7], 1))!;
    await leasesRunOut();
    const gate = await closedGate(database);
    const gated = `FROM ${gate.sql} AS gate, lane CROSS JOIN LATERAL`;
    alter(b.queue, 'leaseHinted', /FROM lane\s+CROSS JOIN LATERAL/, gated);
    const leasing = takeLease(b, [7], 8, 1);
    await gate.reached();
    await putBack(a, lease, rows, 60_000);
    await gate.open();
    return leasing;
  }

  it('parks the row behind the new hold', async () => {
    const leased = await leaseWhileTheHolderCommits();
    expect(leased!.rows).toEqual([]);
    expect(await statuses()).toEqual(['held', 'held']);
  });

  it('would ignore the hold if lease and claim had one snapshot', async () => {
    inOneSnapshot(b.queue);
    const leased = await leaseWhileTheHolderCommits();
    expect(positions(leased!.rows)).toEqual([2]);
  });
});

describe('5. order per key', () => {
  it('claims rows in the order of their positions, in every kind of claim', async () => {
    await post(7, 'k', 20);
    const { lease, rows } = (await takeLease(a, [7], 3))!;
    const seen = [...positions(rows)];
    for (let batch = rows; batch.length > 0; ) {
      await finish(a, lease, batch);
      batch = await a.queue.claim(lease, 3);
      seen.push(...positions(batch));
    }
    expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
  });

  it('parks new rows of a held key and continues with other keys', async () => {
    await post(7, 'k', 2);
    const { lease, rows } = (await takeLease(a, [7]))!;
    await putBack(a, lease, rows, 60_000);
    await post(7, 'k', 2);
    await post(7, 'other', 1);
    expect(ids(await a.queue.claim(lease, 8))).toEqual(['7-other-5']);
    expect(await statuses()).toEqual(['held', 'held', 'held', 'held', 'processing']);
  });

  it('claims held rows oldest first when the hold is due, and deletes the hold when they are done', async () => {
    await post(7, 'k', 3);
    const { lease, rows } = (await takeLease(a, [7]))!;
    await putBack(a, lease, rows, 60_000);
    await post(7, 'k', 2);
    expect(await a.queue.claim(lease, 8)).toEqual([]);
    await holdsAreDue();
    const seen: number[] = [];
    for (;;) {
      const batch = await a.queue.claim(lease, 2);
      if (batch.length === 0) break;
      expect(await holdCount()).toBe(1);
      seen.push(...positions(batch));
      await finish(a, lease, batch);
    }
    expect(seen).toEqual([1, 2, 3, 4, 5]);
    expect(await holdCount()).toBe(0);
  });

  it('claims held rows of a crashed owner again, before later ones', async () => {
    await post(7, 'k', 4);
    const { lease, rows } = (await takeLease(a, [7]))!;
    await putBack(a, lease, rows, 0);
    expect(positions(await a.queue.claim(lease, 2))).toEqual([1, 2]);
    await leasesRunOut();
    const taken = (await takeLease(b, [7], 3))!;
    expect(positions(taken.rows)).toEqual([1, 2, 3]);
    expect(taken.rows.map(({ attempt }) => attempt)).toEqual([2, 2, 2]);
  });

  /** Rows 3 and 4 are held and their hold is due; 1 and 2 of the same key are ready. */
  async function readyBeforeHeld(): Promise<number[]> {
    await post(7, 'k', 4);
    await database.query(`UPDATE inbox SET status = 'held', waits = 'held' WHERE position > 2`);
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason) VALUES ('inbox', 'k', 7, now(), 'retry')`,
    );
    const seen: number[] = [];
    const { lease, rows } = (await takeLease(a, [7]))!;
    for (let batch = rows; batch.length > 0; batch = await a.queue.claim(lease, 8)) {
      seen.push(...positions(batch));
      await finish(a, lease, batch);
    }
    return seen;
  }

  it('never claims held rows before ready ones of their key', async () => {
    expect(await readyBeforeHeld()).toEqual([1, 2, 3, 4]);
  });

  it('would claim them first if a due hold were enough', async () => {
    alter(a.queue, 'claim', /WHERE NOT EXISTS \(\s*SELECT FROM first_ready[^)]*\)/, '');
    expect(await readyBeforeHeld()).toEqual([3, 4, 1, 2]);
  });

  it('never claims more than the limit, of ready and held rows together', async () => {
    for (let key = 0; key < 30; key++) await post(7, `held-${key}`, 5);
    const first = (await takeLease(a, [7], 1000))!;
    await putBack(a, first.lease, first.rows, 0);
    await a.queue.release(first.lease);
    await post(7, 'ready', 50);
    const { lease, rows } = (await takeLease(a, [7], 16))!;
    expect(positions(rows)).toEqual(Array.from({ length: 16 }, (_, n) => n + 1));
    expect(await a.queue.claim(lease, 16)).toHaveLength(16);
  });

  it('reaches the rows behind any number of parked rows, in one lease', async () => {
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason) VALUES ('inbox', 'k', 7, 'infinity', 'operator')`,
    );
    await post(7, 'k', 5_000);
    await post(7, 'other', 1);
    const { rows } = (await takeLease(a, [7], 8))!;
    expect(ids(rows)).toEqual(['7-other-5001']);
  });

  it.each([true, false])(
    'gives a busy lane a larger share if others are quiet, up to a sixteenth of a claim, or all of it if it is alone (quick: %s)',
    async (quick) => {
      await post(7, 'hot', 100);
      const hint = Array.from({ length: 32 }, (_, n) => 7 + n);
      for (const lane of hint.slice(1)) await post(lane, `k${lane}`, 1);
      const { lease, rows } = (await a.queue.lease({ hint, maxRows: 64, maxLanes: 32, quick }))!;
      expect(rows).toHaveLength(2 + 31);
      await finish(a, lease, rows);
      const more = await a.queue.claim(lease, 64);
      expect(more).toHaveLength(4);
      await finish(a, lease, more);
      await a.queue.release(lease);
      expect((await takeLease(a, undefined, 64))!.rows).toHaveLength(64);
    },
  );
});

describe('6. holds', () => {
  it('are never shortened by a retry, and have the reason of the longer one', async () => {
    await post(7, 'k', 1);
    const { lease } = (await takeLease(a, [7]))!;
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason, note) VALUES ('inbox', 'k', 7, 'infinity', 'operator', 'mine')`,
    );
    await hold(a, lease, 7, 'k', 1_000);
    const [mine] = await database.query('SELECT until::text, reason, note FROM hold');
    expect(mine).toEqual({ until: 'infinity', reason: 'operator', note: 'mine' });
    await hold(a, lease, 7, 'k', undefined, 'dead-letter');
    const [dead] = await database.query('SELECT until::text, reason, note FROM hold');
    expect(dead).toEqual({ until: 'infinity', reason: 'dead-letter', note: 'mine' });
  });

  it.each([
    ['1 hour', true],
    ['-1 hour', false],
  ])('of an operator that end in %s are restored after a dead letter: %s', async (lasts, theirs) => {
    await post(7, 'k', 1);
    const { lease } = (await takeLease(a, [7]))!;
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason, note)
       VALUES ('inbox', 'k', 7, now() + $1::interval, 'operator', 'mine')`,
      [lasts],
    );
    await hold(a, lease, 7, 'k', undefined, 'dead-letter');
    expect(
      await database.query(
        `SELECT until::text, reason, note, then_until > now() + interval '50 minutes' AS later FROM hold`,
      ),
    ).toEqual([
      { until: 'infinity', reason: 'dead-letter', note: theirs ? 'mine' : null, later: theirs ? true : null },
    ]);
  });

  it('are extended by a later retry', async () => {
    await post(7, 'k', 1);
    const { lease } = (await takeLease(a, [7]))!;
    await hold(a, lease, 7, 'k', 0);
    await hold(a, lease, 7, 'k', 3_600_000, 'deferred');
    expect(
      await database.query(`SELECT until > now() + interval '50 minutes' AS later, reason FROM hold`),
    ).toEqual([{ later: true, reason: 'deferred' }]);
  });

  it('that an operator extends during the claim are not deleted', async () => {
    await post(7, 'k', 1);
    const { lease, rows } = (await takeLease(a, [7]))!;
    await finish(a, lease, rows);
    await hold(a, lease, 7, 'k', 0);
    const gate = await closedGate(database);
    alter(a.queue, 'clear', 'FROM lane', `FROM ${gate.sql} AS gate, lane`);
    const claiming = a.queue.claim(lease, 8);
    await gate.reached();
    await database.query(`UPDATE hold SET until = 'infinity', reason = 'operator'`);
    await gate.open();
    await claiming;
    expect(await holdCount()).toBe(1);
  });

  it('without rows are deleted by the next claim, which finds nothing else', async () => {
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason) VALUES ('inbox', 'k', 7, now(), 'retry')`,
    );
    const leased = (await takeLease(a, undefined))!;
    expect([[...leased.lease.lanes], leased.rows]).toEqual([[7], []]);
    await a.queue.release(leased.lease);
    expect(await holdCount()).toBe(0);
    expect(await takeLease(a, undefined)).toBeUndefined();
  });
});

describe('7. crashes', () => {
  it('counts an attempt at the claim, and reverts it if the owner crashed with several claimed rows', async () => {
    await post(7, 'k', 3);
    await takeLease(a, [7]);
    expect(await attempts()).toEqual([1, 1, 1]);
    await leasesRunOut();
    const { lease, rows } = (await takeLease(b, [7]))!;
    expect(await attempts()).toEqual([1, 1, 1]);
    await finish(b, lease, rows);
    expect(await attempts()).toEqual([1, 1, 1]);
  });

  it('counts rows as taken over only when the take-over succeeds', async () => {
    const taken: number[] = [];
    const onTakenOver = (rows: number) => taken.push(rows);
    await post(7, 'k', 3);
    await takeLease(a, [7], 2);
    await leasesRunOut();
    a = { ...a, queue: a.newQueue({ onTakenOver }) };
    alter(a.queue, 'clear', 'until <= clock_timestamp()', '1 / 0 = 0');
    await expect(takeLease(a, [7])).rejects.toThrow('division by zero');
    expect(taken).toEqual([]);
    b = { ...b, queue: b.newQueue({ onTakenOver }) };
    await takeLease(b, [7]);
    expect(taken).toEqual([2]);
  });

  it('reverts it for all rows of the largest possible claim', async () => {
    await post(7, 'k', 2_000);
    await takeLease(a, [7], 2_000);
    await leasesRunOut();
    await takeLease(b, [7], 1);
    expect(new Set((await attempts()).slice(1))).toEqual(new Set([0]));
  });

  it('leases a suspect lane only alone, one message at a time, and counts it as an attempt of that one', async () => {
    await post(7, 'k', 3);
    for (let crash = 0; crash < SUSPECT_AFTER; crash++) {
      expect(positions((await takeLease(a, [7]))!.rows)).toEqual([1, 2, 3]);
      await leasesRunOut();
    }
    expect(await takeLease(a, [7])).toBeUndefined();
    for (let crash = 1; crash <= 3; crash++) {
      const { lease, rows } = (await a.queue.leaseSuspect())!;
      expect(rows.map(({ position, attempt }) => [position, attempt])).toEqual([[1, crash]]);
      expect(lease).toMatchObject({ oneAtATime: true, suspectsUpTo: crash === 1 ? 3 : 1 });
      expect(await attempts()).toEqual([crash, 0, 0]);
      await leasesRunOut();
    }
    const { lease, rows } = (await b.queue.leaseSuspect())!;
    await finish(b, lease, rows);
    await b.queue.release(lease);
    expect(positions((await takeLease(a, [7]))!.rows)).toEqual([2, 3]);
    expect(await attempts()).toEqual([4, 1, 1]);
  });

  it('claims one message even if a ready and a held one are available', async () => {
    await post(7, 'k', 1);
    const first = (await takeLease(a, [7]))!;
    await putBack(a, first.lease, first.rows, 0);
    await post(7, 'other', 1);
    await database.query('UPDATE lane SET crashes = 2, leased_until = now() WHERE lane = 7');
    expect(ids((await b.queue.leaseSuspect())!.rows)).toEqual(['7-k-1']);
  });

  it('leases a suspect lane alone, with one row, if suspects are not leased separately', async () => {
    a = { ...a, queue: a.newQueue({ suspectsApart: false }) };
    await post(7, 'k', 2);
    await post(8, 'l', 1);
    await database.query('UPDATE lane SET crashes = 2 WHERE lane = 7');
    const { lease, rows } = (await takeLease(a, [7, 8]))!;
    expect([[...lease.lanes], lease.oneAtATime, positions(rows)]).toEqual([[7], true, [1]]);
    expect(positions((await takeLease(b, [8]))!.rows)).toEqual([3]);
  });

  it('gives claimed rows back without counting an attempt, and releases the lane at once', async () => {
    await post(7, 'k', 2);
    const { lease, rows } = (await takeLease(a, [7], 1))!;
    await putBack(a, lease, rows, 0);
    await a.queue.claim(lease, 1);
    await post(7, 'other', 1);
    await a.queue.claim(lease, 8);
    await a.queue.giveBack(lease);
    expect(await statuses()).toEqual(['held', 'held', 'pending']);
    expect(await attempts()).toEqual([1, 0, 0]);
    expect(await freeLanes()).toBe(256);
    expect(ids((await takeLease(b, [7]))!.rows)).toEqual(['7-k-1', '7-k-2', '7-other-3']);
  });

  it('counts an abandoned lane as a crash, without waiting for the lease to expire', async () => {
    await post(7, 'k', 2);
    for (let crash = 1; crash <= SUSPECT_AFTER; crash++) {
      const { lease } = (await takeLease(a, [7]))!;
      expect(await a.queue.abandon(lease, BROKEN)).toBe(true);
      expect(await attempts()).toEqual([0, 0]);
      expect(await freeLanes()).toBe(256);
    }
    expect(await takeLease(a, [7])).toBeUndefined();
    const { lease } = (await a.queue.leaseSuspect())!;
    await a.queue.abandon(lease, BROKEN);
    expect(await attempts()).toEqual([1, 0]);
  });

  it('does not count a full disk as a crash, no matter how often it happens', async () => {
    await post(7, 'k', 2);
    const full = Object.assign(new Error('could not extend file'), { code: '53100' });
    for (let time = 1; time <= 2 * SUSPECT_AFTER; time++) {
      const { lease } = (await takeLease(a, [7]))!;
      expect(await a.queue.abandon(lease, full)).toBe(true);
      expect(await attempts()).toEqual([0, 0]);
    }
    await database.query(`UPDATE lane SET crashes = ${SUSPECT_AFTER + 1} WHERE lane = 7 AND queue = 'inbox'`);
    const { lease } = (await a.queue.leaseSuspect())!;
    expect(await a.queue.abandon(lease, full)).toBe(true);
    expect(await attempts()).toEqual([0, 0]);
  });

  it('gives lanes back later that could not be given back while the database was unreachable', async () => {
    await post(7, 'k', 1);
    const { lease } = (await takeLease(a, [7]))!;
    jest.spyOn(a.database, 'transaction').mockRejectedValueOnce(new Error('Connection terminated'));
    expect(await a.queue.abandon(lease, BROKEN)).toBe(false);
    expect(await freeLanes()).toBe(255);
    expect(ids((await takeLease(a, [7]))!.rows)).toEqual(['7-k-1']);
    expect(await attempts()).toEqual([1]);
  });

  it('gives lanes back whose COMMIT succeeded although its response was lost', async () => {
    await post(7, 'k', 1);
    const { transaction } = a.database;
    jest.spyOn(a.database, 'transaction').mockImplementationOnce(async (work) => {
      await transaction.call(a.database, work);
      throw new Error('Connection terminated');
    });
    await expect(takeLease(a, [7])).rejects.toThrow('Connection terminated');
    expect(await freeLanes()).toBe(255);
    expect(ids((await takeLease(a, [7]))!.rows)).toEqual(['7-k-1']);
    expect(await attempts()).toEqual([1]);
  });

  it('does not count an attempt twice for a mark that was too far back to be found', async () => {
    await post(7, 'k', 1_200);
    await takeLease(a, [7], 1_200);
    await leasesRunOut();
    const { rows } = (await takeLease(b, [7], 1_200))!;
    expect(new Set(rows.map(({ attempt }) => attempt))).toEqual(new Set([1]));
  });
});

describe('lanes that are leased under different tokens', () => {
  it('are claimed together, each by its own token', async () => {
    for (const lane of [7, 8, 9]) await post(lane, `k${lane}`, 3);
    const [one, two, three] = [
      (await takeLease(a, [7], 1))!,
      (await takeLease(a, [8], 1))!,
      (await takeLease(a, [9], 1))!,
    ];
    await finish(a, one.lease, one.rows);
    await finish(a, two.lease, two.rows);
    await leasesRunOut();
    await takeLease(b, [9]);
    const leased = [one, two, three].map(({ lease }) => ({
      lane: [...lease.lanes][0]!,
      token: lease.token,
    }));
    expect(positions(await a.queue.claimForLanes(leased, 1))).toEqual([2, 5]);
  });
});

describe('whether there may be more', () => {
  it.each([
    ['a lane returned less than its limit', { 7: 3 }, 4, false],
    ['a lane returned its limit', { 7: 4 }, 4, true],
    ['one of two lanes returned its share, even if the total is small', { 7: 1, 8: 4 }, 8, true],
    ['neither of two lanes returned its share', { 7: 3, 8: 3 }, 8, false],
  ])('is returned: %s', async (_, lanes, maxRows, more) => {
    for (const [lane, count] of Object.entries(lanes)) await post(Number(lane), `k${lane}`, count);
    const hint = Object.keys(lanes).map(Number);
    for (const quick of [true, false]) {
      const { lease } = (await a.queue.lease({ hint, maxRows, maxLanes: hint.length, quick }))!;
      expect(lease.more).toBe(more);
      await a.queue.giveBack(lease);
    }
  });

  it('is true if rows were parked, and false when nothing is left', async () => {
    await post(7, 'held', 2);
    await post(7, 'free', 1);
    await a.database.transaction((tx) =>
      a.queue.hold([{ key: 'held', lane: 7, forMs: undefined, reason: 'operator' }], tx),
    );
    const { lease, rows } = (await takeLease(a, [7]))!;
    expect([positions(rows), lease.more]).toEqual([[3], true]);
    await finish(a, lease, rows);
    expect(await a.queue.claim(lease, 8)).toEqual([]);
    expect(lease.more).toBe(false);
  });
});

describe('8. no lane is forgotten', () => {
  it('gives every lane its turn, even if few are leased at a time', async () => {
    for (let lane = 0; lane < 256; lane += 5) await post(lane, `k${lane}`, 2);
    const seen = new Set<number>();
    for (let scan = 0; scan < 7; scan++) {
      const { lease } = (await takeLease(a, undefined, 8, 8))!;
      for (const lane of lease.lanes) seen.add(lane);
      await a.queue.giveBack(lease);
    }
    expect(seen.size).toBe(52);
  });

  it('starts over at the first lane when the others have no work', async () => {
    await post(1, 'k', 1);
    await post(2, 'l', 1);
    const seen: number[] = [];
    for (let scan = 0; scan < 3; scan++) {
      const { lease } = (await takeLease(a, undefined, 1, 1))!;
      seen.push(...lease.lanes);
      await a.queue.giveBack(lease);
    }
    expect(seen).toEqual([1, 2, 1]);
  });

  it('leases an expired lane even if it is empty, so that no lease is left over', async () => {
    await post(7, 'k', 1);
    const { lease, rows } = (await takeLease(a, [7]))!;
    await finish(a, lease, rows);
    await leasesRunOut();
    const found = (await takeLease(b, undefined))!;
    expect([[...found.lease.lanes], found.rows]).toEqual([[7], []]);
    await b.queue.release(found.lease);
    expect(await freeLanes()).toBe(256);
    expect(await takeLease(b, undefined)).toBeUndefined();
  });

  it('clears marks also behind a hold that is not due', async () => {
    await post(7, 'k', 1);
    const { lease, rows } = (await takeLease(a, [7]))!;
    await putBack(a, lease, rows, 0);
    await a.queue.claim(lease, 1);
    await database.query(`UPDATE hold SET until = 'infinity', reason = 'operator'`);
    await leasesRunOut();
    const found = (await takeLease(b, undefined))!;
    await b.queue.release(found.lease);
    expect(await statuses()).toEqual(['held']);
    expect(await attempts()).toEqual([1]);
  });
});

function takeLease(
  { queue }: TestReplica,
  hint: readonly number[] | undefined,
  maxRows = 8,
  maxLanes = 16,
): Promise<LeasedRows<TestRow> | undefined> {
  return queue.lease({ hint, maxRows, maxLanes: Math.min(maxLanes, hint?.length ?? maxLanes) });
}

/** Messages of a key, named by their position. */
async function post(lane: number, key: string, count: number): Promise<void> {
  await database.query(
    `WITH next AS (SELECT nextval(pg_get_serial_sequence('inbox', 'position')) AS position FROM generate_series(1, $3))
     INSERT INTO inbox (position, id, source, type, key, lane, payload)
     SELECT position, concat($1::int, '-', $2::text, '-', position), 's', 't', $2, $1, 'null' FROM next`,
    [lane, key, count],
  );
}

function finishing(rows: readonly TestRow[]): [string, unknown[]] {
  return [
    `UPDATE inbox SET status = 'finished', waits = NULL, settled_at = now() WHERE position = ANY ($1)`,
    [positions(rows)],
  ];
}

/** Applies a batch, without a second fence. */
async function finish(
  { database: own, queue }: TestReplica,
  lease: Lease,
  rows: readonly TestRow[],
): Promise<void> {
  await own.transaction(async (tx) => {
    await queue.fence(lease, [...new Set(rows.map(({ lane }) => lane))], tx);
    await tx.execute('INSERT INTO effect SELECT unnest($1::text[])', [ids(rows)]);
    await tx.execute(...finishing(rows));
  });
}

/** All of one key, behind a hold; the attempt counts. */
async function putBack(
  { database: own, queue }: TestReplica,
  lease: Lease,
  rows: readonly TestRow[],
  forMs: number,
): Promise<void> {
  const keys = new Map(rows.map((row) => [row.key, row]));
  await own.transaction(async (tx) => {
    await queue.fence(lease, [...new Set(rows.map(({ lane }) => lane))], tx);
    await tx.execute(`UPDATE inbox SET status = 'held', waits = 'held' WHERE position = ANY ($1)`, [
      positions(rows),
    ]);
    await queue.hold(
      [...keys.values()].map(({ key, lane }) => ({ key, lane, forMs, reason: 'retry' })),
      tx,
    );
  });
}

async function hold(
  { database: own, queue }: TestReplica,
  lease: Lease,
  lane: number,
  key: string,
  forMs: number | undefined,
  reason: 'retry' | 'deferred' | 'dead-letter' = 'retry',
): Promise<void> {
  await own.transaction(async (tx) => {
    await queue.fence(lease, [lane], tx);
    await queue.hold([{ key, lane, forMs, reason }], tx);
  });
}

/** Time passes. */
async function leasesRunOut(): Promise<void> {
  await database.query(`UPDATE lane SET leased_until = now() WHERE leased_until > '-infinity'`);
}

async function holdsAreDue(): Promise<void> {
  await database.query('UPDATE hold SET until = now()');
}

function positions(rows: readonly TestRow[]): number[] {
  return rows.map(({ position }) => position);
}

function ids(rows: readonly TestRow[]): string[] {
  return rows.map(({ id }) => id);
}

async function column<T>(sql: string): Promise<T[]> {
  return (await database.query<{ value: T }>(sql)).map(({ value }) => value);
}

function statuses(): Promise<string[]> {
  return column('SELECT status AS value FROM inbox ORDER BY position');
}

function attempts(): Promise<number[]> {
  return column('SELECT attempt::int AS value FROM inbox ORDER BY position');
}

function effects(): Promise<string[]> {
  return column('SELECT id AS value FROM effect ORDER BY id');
}

async function count(sql: string): Promise<number> {
  return (await column<number>(`SELECT count(*)::int AS value ${sql}`))[0]!;
}

function holdCount(): Promise<number> {
  return count('FROM hold');
}

function freeLanes(): Promise<number> {
  return count(`FROM lane WHERE leased_until = '-infinity' AND token IS NULL`);
}

function heldWithoutHold(): Promise<number> {
  return count(
    `FROM inbox WHERE waits = 'held' AND NOT EXISTS (SELECT FROM hold WHERE hold.key = inbox.key)`,
  );
}

function processingInFreeLanes(): Promise<number> {
  return count(
    `FROM inbox JOIN lane USING (lane) WHERE status = 'processing' AND leased_until = '-infinity'`,
  );
}

function rowsAndLane(lane: number): Promise<unknown> {
  return Promise.all([
    database.query('SELECT position, status, attempt, waits FROM inbox WHERE lane = $1 ORDER BY position', [
      lane,
    ]),
    database.query('SELECT token, crashes, leased_until FROM lane WHERE lane = $1', [lane]),
  ]);
}
