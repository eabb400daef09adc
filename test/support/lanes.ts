import pg from 'pg';
import { loadSettings } from '../../src/config/settings.ts';
import { Database } from '../../src/database/database.ts';
import type { Transaction } from '../../src/database/transaction.ts';
import { LaneQueue } from '../../src/lanes/lane-queue.ts';
import type { LaneQueueOptions, LaneRow } from '../../src/lanes/lane-queue-types.ts';
import { newLease } from '../../src/lanes/lease.ts';
import type { TestDatabase } from './database.ts';
import { until } from './until.ts';

export interface TestRow extends LaneRow {
  readonly id: string;
  readonly key: string;
  readonly attempt: number;
}

type Statements = Record<'lease' | 'leaseHinted' | 'takeOver' | 'giveBack' | 'claim' | 'clear', string>;

/** The inbox's lane queue of one replica, with its own connections. */
export interface TestReplica {
  readonly database: Database;
  readonly queue: LaneQueue<TestRow>;
  newQueue(options?: Partial<LaneQueueOptions>): LaneQueue<TestRow>;
  close(): Promise<void>;
}

export function startReplica(on: TestDatabase): TestReplica {
  const database = new Database(on.url, loadSettings({}), undefined, () => undefined);
  const newQueue = (options: Partial<LaneQueueOptions> = {}) =>
    new LaneQueue<TestRow>(
      'inbox',
      database,
      { table: 'inbox', columns: 'id, key, attempt' },
      { lanes: 256, leaseMs: 30_000, replica: 'test', suspectsApart: true, ...options },
    );
  return { database, queue: newQueue(), newQueue, close: () => database.close() };
}

/** The statements of a queue, to be read or changed by a test. */
export function statementsOf<Row extends LaneRow>(queue: LaneQueue<Row>): Statements {
  return (queue as unknown as { sql: Statements }).sql;
}

/** Changes a statement of one queue: removes a guard or adds a pause. Fails if the text is not found. */
export function alter<Row extends LaneRow>(
  queue: LaneQueue<Row>,
  statement: keyof Statements,
  from: string | RegExp,
  to: string,
): void {
  const sql = statementsOf(queue);
  const changed = sql[statement].replace(from, () => to);
  if (changed === sql[statement]) throw new Error(`${statement} has no ${from}`);
  sql[statement] = changed;
}

/** What the queue must not do: lease and claim in one statement, with one snapshot. Built from the queue's own statements. */
export function inOneSnapshot<Row extends LaneRow>(queue: LaneQueue<Row>): void {
  const leaseIn = async (
    tx: Transaction,
    token: string,
    first: number,
    { hint, maxLanes, maxRows }: Parameters<typeof queue.lease>[0],
    suspects: boolean | null,
  ) => {
    const { leaseMs, replica } = (queue as unknown as { options: LaneQueueOptions }).options;
    const { lease: all, leaseHinted, claim } = statementsOf(queue);
    const sql = oneStatement(hint ? leaseHinted : all, claim);
    const leaseValues = [queue.name, first, hint ?? null, maxLanes, token, leaseMs, replica, 2, suspects];
    const perLane = Math.max(1, Math.floor(maxRows / maxLanes));
    const response = await tx.query<Row & { leased: number[] | null }>(sql, [
      ...leaseValues,
      perLane,
      perLane,
      maxRows,
    ]);
    const { leased } = response[0]!;
    if (!leased) return undefined;
    const held = leased.map((lane) => ({ lane }));
    const lease = newLease(token, held, performance.now() + leaseMs / 2, {
      oneAtATime: suspects === true,
      suspectsUpTo: Number.MAX_SAFE_INTEGER,
    });
    const rows = response.filter(({ position }) => position !== null);
    return { lease, rows: rows.sort((a, b) => a.position - b.position) };
  };
  Object.assign(queue, { leaseIn });
}

function oneStatement(lease: string, claim: string): string {
  const renumbered: Record<string, number> = { 1: 1, 2: 5, 4: 10, 5: 11, 6: 12 };
  const claiming = claim
    .replace(/WITH mine AS MATERIALIZED \([\s\S]*?FOR NO KEY UPDATE\s*\)/, '')
    .replaceAll(/\$(\d+)/g, (_, n: string) => `$${renumbered[n]}`)
    .replace('SELECT (SELECT count', 'SELECT (SELECT array_agg(lane) FROM leased) AS leased, (SELECT count');
  return `WITH leased AS (${lease}), mine AS MATERIALIZED (SELECT lane FROM leased)${claiming}`;
}

/** A point in a statement at which its execution waits until the test opens the gate: an advisory lock. */
export interface StatementGate {
  /** A FROM item that waits for the gate. */
  readonly sql: string;
  /** Resolves when a statement waits at the gate. */
  reached(): Promise<void>;
  open(): Promise<void>;
}

let gates = 0;

export async function closedGate(on: TestDatabase): Promise<StatementGate> {
  gates += 1;
  const number = gates;
  const client = new pg.Client({ connectionString: on.url });
  await client.connect();
  await client.query('SELECT pg_advisory_lock($1)', [number]);
  return {
    sql: `(SELECT pg_advisory_xact_lock_shared(${number}))`,
    reached: async () => {
      await until(async () => {
        const { rows } = await client.query(
          `SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
          [number],
        );
        return rows.length > 0;
      });
    },
    open: async () => {
      await client.end();
    },
  };
}
