import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startReplica, statementsOf, type TestReplica } from '../../test/support/lanes.ts';
import { literal } from '../../test/support/literal.ts';
import type { Transaction } from '../database/transaction.ts';
import type { LeasedRows } from './lane-queue-types.ts';

/** How many rows a table grows to; the measured numbers in the comments come from 300,000. */
const ROWS = Number(process.env.PLAN_ROWS ?? 60_000);
const RUNS = 7;

interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Index Cond'?: string;
  Plans?: Plan[];
}

interface Seen {
  readonly statement: string;
  /** Tables that are not read by the expected index. */
  readonly unexpected: readonly string[];
  readonly sortsRows: boolean;
}

/** Indexes that a statement may use, and the conditions they must be searched by. */
const WAYS: Record<string, RegExp> = {
  inbox_ready: /ROW\(lane, "position"\) > .* AND \(ROW\(lane, "position"\) <= ROW\([a-z_.0-9]+, /,
  inbox_held: /lane = .*key = /,
  inbox_pkey: /"position" = ANY/,
  hold_due: /queue = .*lane = .*until/,
  hold_pkey: /ROW\(queue, lane, key\) >= /,
  lane_pkey: /queue = /,
};

let database: TestDatabase;
let replica: TestReplica;
let seen: Seen[];
const times: string[] = [];

beforeAll(async () => {
  database = await createDatabase();
  for (const table of ['inbox', 'hold', 'lane']) {
    await database.query(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`);
  }
  replica = startReplica(database);
});
afterAll(async () => {
  process.stderr.write(`\nlane queue, ms (best of ${RUNS}), ${ROWS} rows\n${times.join('\n')}\n`);
  await replica.close();
  await database.drop();
});

describe('every statement has one plan', () => {
  it('on an empty table', () => checkAll('empty'));

  it('on a table that grew before its first ANALYZE', async () => {
    await grow(10_000);
    await checkAll('grown, never analysed');
  });

  it('on the same, analysed', async () => {
    await database.query('ANALYZE');
    await checkAll('analysed');
  });

  it('with many holds that are not due, and some that are', async () => {
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason)
       SELECT 'inbox', 'held-' || n, n % 256, CASE WHEN n % 100 = 0 THEN now() ELSE 'infinity' END, 'retry'
       FROM generate_series(1, 10000) AS n`,
    );
    await checkAll('10,000 holds, never analysed');
    await database.query('ANALYZE');
    await checkAll('10,000 holds, analysed');
  });

  it('with everything on one key, never analysed', async () => {
    await database.query('TRUNCATE inbox, hold');
    await grow(1);
    await checkAll('one key, never analysed');
  });

  it('with everything on one key, analysed', async () => {
    await database.query('ANALYZE');
    await checkAll('one key, analysed');
  });

  it('with everything parked behind a held key', async () => {
    await database.query(`UPDATE inbox SET status = 'held', waits = 'held'`);
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason) SELECT 'inbox', key, lane, 'infinity', 'dead-letter'
       FROM inbox LIMIT 1`,
    );
    await checkAll('all parked');
    await database.query('VACUUM ANALYZE inbox');
    await checkAll('all parked, vacuumed');
    await database.query('UPDATE hold SET until = now()');
    await checkAll('all parked, hold due');
  });

  it('with everything finished', async () => {
    await database.query(`UPDATE inbox SET status = 'finished', waits = NULL, settled_at = now()`);
    await database.query('DELETE FROM hold');
    await checkAll('all finished, not vacuumed');
    await database.query('VACUUM ANALYZE inbox');
    await checkAll('all finished');
  });
});

describe('marking', () => {
  /** The second version of a row fits after pruning the first, unless another session (an ANALYZE) holds a snapshot. */
  const TRIES = 5;

  it('changes no index: pending and held rows become processing in place', async () => {
    for (let tries = 1; tries <= TRIES; tries++) {
      const shares = [await hotShareOf('pending'), await hotShareOf('held')];
      if (shares.every((share) => share > 0.95)) return;
    }
    throw new Error(`${TRIES} times in a row indexes were touched`);
  });

  /** The share of updates, of a claim and of giving it back, that changed no index: all but the few whose page is full. */
  async function hotShareOf(status: 'pending' | 'held'): Promise<number> {
    await database.query('TRUNCATE inbox, hold');
    await grow(100, 1_000);
    if (status === 'held') {
      await database.query(`UPDATE inbox SET status = 'held', waits = 'held'`);
      await database.query('VACUUM inbox');
      await database.query(
        `INSERT INTO hold (queue, key, lane, until, reason) SELECT DISTINCT 'inbox', key, lane, now(), 'retry' FROM inbox`,
      );
    }
    const before = await updates();
    const { lease, rows } = (await takeLease(1_000))!;
    expect(rows.length).toBeGreaterThan(100);
    await replica.queue.giveBack(lease);
    const { all, hot } = since(before, await updates());
    expect(all).toBe(rows.length * 2);
    return hot / all;
  }
});

/** Leases, claims again, and takes over after a crash: all statements, their plans, and how long they took. */
async function checkAll(situation: string): Promise<void> {
  seen = [];
  await withEveryPlan(async () => {
    const leased = await takeLease(256);
    if (leased) {
      await replica.queue.claim(leased.lease, 256);
      await database.query(`UPDATE lane SET leased_until = now() WHERE leased_until > '-infinity'`);
      const taken = (await takeLease(256))!;
      await replica.queue.giveBack(taken.lease);
      const hint = [...leased.lease.lanes];
      const hinted = await replica.queue.lease({ hint, maxLanes: 32, maxRows: 256 });
      if (hinted) await replica.queue.giveBack(hinted.lease);
    }
  });
  await database.query(`UPDATE lane SET leased_until = '-infinity', token = NULL, crashes = 0`);
  expect(new Set(seen.map(({ statement }) => statement)).size).toBeGreaterThan(0);
  expect(seen.filter(({ unexpected, sortsRows }) => unexpected.length > 0 || sortsRows)).toEqual([]);
  times.push(`${situation.padEnd(32)} ${await measure()}`);
}

function takeLease(
  maxRows: number,
): Promise<
  LeasedRows<{ position: number; lane: number; id: string; key: string; attempt: number }> | undefined
> {
  return replica.queue.lease({ hint: undefined, maxLanes: 32, maxRows });
}

/** Explains each statement of a transaction before it runs, with the same settings. */
async function withEveryPlan(work: () => Promise<void>): Promise<void> {
  const { transaction } = replica.database;
  const names = new Map(Object.entries(statementsOf(replica.queue)).map(([name, sql]) => [sql, name]));
  replica.database.transaction = (inside) =>
    transaction.call(replica.database, (tx: Transaction) => {
      const explain = async (sql: string, parameters: readonly unknown[] = []) => {
        const statement = names.get(sql);
        if (!statement) return;
        type Explained = Record<string, [{ Plan: Plan }]>;
        // As behind a pooler, planned for its values; and as a prepared statement, planned without them.
        const custom = tx.query<Explained>(`EXPLAIN (FORMAT JSON) ${sql}`, parameters);
        void tx.query(`PREPARE looked_at AS ${sql}`);
        const values = parameters.map(literal);
        const generic = tx.query<Explained>(`EXPLAIN (FORMAT JSON) EXECUTE looked_at (${values})`);
        void tx.query('DEALLOCATE looked_at');
        for (const [row] of await Promise.all([custom, generic])) {
          const plan = row!['QUERY PLAN']![0].Plan;
          // Before PostgreSQL 17 hinted lanes are sorted: no more of them than the hint has, each with its first row.
          const sorted = statement !== 'leaseHinted' && sortsRows(plan);
          seen.push({ statement, unexpected: unexpectedIn(plan), sortsRows: sorted });
        }
      };
      const explaining = {
        query: async (sql: string, parameters?: readonly unknown[]) => {
          const explained = explain(sql, parameters);
          const [rows] = await Promise.all([tx.query(sql, parameters), explained]);
          return rows;
        },
        execute: async (sql: string, parameters?: readonly unknown[]) => {
          const explained = explain(sql, parameters);
          const [count] = await Promise.all([tx.execute(sql, parameters), explained]);
          return count;
        },
      };
      return inside(explaining as unknown as Transaction);
    }) as never;
  try {
    await work();
  } finally {
    replica.database.transaction = transaction;
  }
}

function readsIn(plan: Plan): Plan[] {
  const own = plan['Relation Name'] !== undefined && plan['Node Type'] !== 'ModifyTable' ? [plan] : [];
  return [...own, ...(plan.Plans ?? []).flatMap(readsIn)];
}

function unexpectedIn(plan: Plan): string[] {
  return readsIn(plan)
    .filter((read) => read['Node Type'] !== 'Tid Scan')
    .filter((read) => !WAYS[read['Index Name'] ?? '']?.test(read['Index Cond'] ?? ''))
    .map(
      (read) =>
        `${read['Node Type']} on ${read['Relation Name']} by ${read['Index Name']} ${read['Index Cond']}`,
    );
}

/** Whether rows directly from a table are sorted, or joined other than by a nested loop. */
function sortsRows(plan: Plan): boolean {
  const children = plan.Plans ?? [];
  if (plan['Node Type'] === 'Hash Join' || plan['Node Type'] === 'Merge Join') return true;
  if (
    plan['Node Type'] === 'Sort' &&
    children.some((child) => readsIn(child).some((read) => read['Relation Name'] === 'inbox'))
  ) {
    return true;
  }
  return children.some(sortsRows);
}

async function measure(): Promise<string> {
  const taken: Record<'lease' | 'again' | 'takeover', number[]> = { lease: [], again: [], takeover: [] };
  for (let run = 0; run < RUNS; run++) {
    const leased = await timed(taken.lease, () => takeLease(256));
    if (!leased) continue;
    await timed(taken.again, () => replica.queue.claim(leased.lease, 256));
    await database.query(`UPDATE lane SET leased_until = now() WHERE leased_until > '-infinity'`);
    const taker = await timed(taken.takeover, () => takeLease(256));
    await replica.queue.giveBack(taker!.lease);
    await database.query(`UPDATE lane SET leased_until = '-infinity', token = NULL, crashes = 0`);
  }
  return Object.entries(taken)
    .map(([name, ms]) => `${name} ${ms.length ? Math.min(...ms).toFixed(1) : '–'}`)
    .join(', ');
}

async function timed<T>(into: number[], work: () => Promise<T>): Promise<T> {
  const start = performance.now();
  const result = await work();
  into.push(performance.now() - start);
  return result;
}

async function grow(keys: number, rows = ROWS): Promise<void> {
  await database.query(
    `INSERT INTO inbox (id, source, type, key, lane, payload)
     SELECT n, 's', 't', 'k' || n % $2, abs(hashint4(n % $2)) % 256, '{}' FROM generate_series(1, $1) AS n`,
    [rows, keys],
  );
}

interface Updates {
  readonly all: number;
  readonly hot: number;
}

async function updates(): Promise<Updates> {
  const stats = replica.database;
  await stats.query('SELECT pg_stat_force_next_flush()');
  const [row] = await database.query<Updates>(
    `SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = 'inbox'`,
  );
  return row!;
}

function since(before: Updates, after: Updates): Updates {
  return { all: after.all - before.all, hot: after.hot - before.hot };
}
