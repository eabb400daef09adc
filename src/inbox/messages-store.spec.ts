import { beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { sharedReplica } from '../../test/support/shared-replica.ts';
import { FORCE_INDEX_PLANS } from '../database/force-index-plans.ts';
import { Reads } from '../database/reads.ts';
import { laneOf } from '../lanes/lane-of.ts';
import { MAX_ROWS_READ } from './messages.sql.ts';
import { type MessageFilter, MessagesStore, NO_FILTER, type Status } from './messages-store.ts';
import { INBOX_LANES } from './new-message.ts';

/** Finished messages, which no other filter may read. */
const FINISHED = 60_000;
/** Messages of each other status, among them. */
const FEW = 40;
const LANE = laneOf('k', INBOX_LANES);

const { database, replica } = sharedReplica({ ROLES: 'api' });
let store: MessagesStore;

beforeAll(async () => {
  await database.query('ALTER TABLE inbox SET (autovacuum_enabled = off)');
  store = replica.app.nest.get(MessagesStore);
  await fill();
});

/** Received a second apart, the last one now; those that are not finished come first. */
async function fill(): Promise<void> {
  const insert = (columns: string, select: string) =>
    database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, received_at, ${columns}) ${select}`,
    );
  const few = (status: Status, columns: string, values: string) =>
    insert(
      `status, ${columns}`,
      `SELECT '${status}-' || n, 's', CASE n % 10 WHEN 0 THEN 'rare' ELSE 't' END, 'k', ${LANE}, '1',
              now() - interval '1 day', '${status}', ${values} FROM generate_series(1, ${FEW}) AS n`,
    );
  await insert(
    'status',
    `SELECT 'pending-' || n, 's', CASE n % 10 WHEN 0 THEN 'rare' ELSE 't' END, 'p' || n % 7, n % 7, '1',
            now() - interval '1 day', 'pending' FROM generate_series(1, ${FEW}) AS n`,
  );
  await few('processing', 'waits', 'NULL');
  await few('held', 'waits', `'held'`);
  await few('scheduled', 'waits, due_at', `'due', now() + interval '1 day'`);
  for (const status of ['dead', 'expired', 'superseded', 'discarded'] as const) {
    await few(status, 'settled_at, lapsed_at', 'now(), now()');
  }
  await database.query(
    `UPDATE lane SET leased_until = now() + interval '1 hour' WHERE queue = 'inbox' AND lane = ${LANE}`,
  );
  await insert(
    'status, settled_at',
    `SELECT 'finished-' || n, 's', CASE n % 20000 WHEN 77 THEN 'rare' ELSE 't' END, 'k' || n % 1000, n % 256, '1',
            now() - (${FINISHED} - n) * interval '1 second', 'finished', now()
     FROM generate_series(1, ${FINISHED}) AS n ORDER BY n`,
  );
}

const filterOf = (given: Partial<MessageFilter>): MessageFilter => ({ ...NO_FILTER, ...given });
const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000).toISOString();

const STATUSES: Status[] = ['pending', 'processing', 'held', 'scheduled', 'dead', 'expired', 'superseded'];

describe.each(['never analysed', 'analysed'])('on a large table that was %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed') await database.query('VACUUM ANALYZE inbox');
  });

  it.each(STATUSES)('a page of status %s reads no finished message', async (status) => {
    for (const more of [{}, { type: 'rare' }, { key: 'k' }, { since: ago(90_000) }]) {
      const read = await rowsRead(filterOf({ status, ...more }));
      expect([more, read]).toEqual([more, expect.any(Number)]);
      expect(read).toBeLessThan(20 * FEW);
    }
  });

  it.each<Partial<MessageFilter>>([
    { type: 'rare' },
    { type: 'unknown' },
    { status: 'finished', type: 'unknown' },
    { since: ago(3_600) },
    { since: ago(-60), type: 't' },
  ])('a page of %j reads no more rows than it needs', async (filter) => {
    expect(await rowsRead(filterOf(filter))).toBeLessThanOrEqual(2 * MAX_ROWS_READ + 100);
  });

  it.each<Partial<MessageFilter>>([
    {},
    { key: 'k5' },
    { key: 'k5', type: 't' },
    { key: 'k5', since: ago(60) },
  ])('a page of %j reads only its own rows', async (filter) => {
    expect(await rowsRead(filterOf(filter))).toBeLessThanOrEqual(2 * 61 + 51);
  });
});

describe('the pages of a list', () => {
  beforeAll(async () => {
    // More than one scan reads, in lanes and behind holds, most of it in one lane.
    const keys = Array.from({ length: 13 }, (_, n) => `m${n}`);
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, waits)
       SELECT 'm-' || n, 's', CASE n % 50 WHEN 0 THEN 'rare' ELSE 't' END, ($1::text[])[1 + (n % 13) * (n % 2)],
              ($2::int[])[1 + (n % 13) * (n % 2)], '1', CASE n % 3 WHEN 0 THEN 'held' ELSE 'pending' END,
              CASE n % 3 WHEN 0 THEN 'held' END
       FROM generate_series(1, 3000) AS n ORDER BY n`,
      [keys, keys.map((key) => laneOf(key, INBOX_LANES))],
    );
    // Received long ago, and due only now: rows after it are younger.
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, received_at, due_at)
       VALUES ('was-scheduled', 's', 't', 'k', ${LANE}, '1', now() - interval '1 day', now())`,
    );
  });

  it.each<Partial<MessageFilter>>([
    ...['pending', 'held', 'scheduled', 'dead', 'processing'].map((status) => ({ status: status as Status })),
    { status: 'pending', type: 'rare' },
    { status: 'held', type: 'rare' },
    { status: 'held', key: 'm0' },
    { status: 'superseded', key: 'k', type: 'rare' },
    { status: 'finished', type: 'rare' },
    { type: 'rare' },
    { type: 'unknown' },
    { since: ago(1_000), type: 't' },
    { since: ago(30_000), type: 'rare' },
  ])('of %j contain each of its messages once, newest first', async (given) => {
    const filter = filterOf(given);
    const limit = 100;
    const pages: number[][] = [];
    let before: number | undefined;
    do {
      const { rows, edge } = await store.list(filter, before, limit + 1);
      pages.push(rows.slice(0, limit).map(({ position }) => position));
      before = rows.length > limit ? pages.at(-1)!.at(-1) : edge;
    } while (before !== undefined && pages.length < 100);
    const [{ positions }] = (await database.query<{ positions: number[] }>(
      `SELECT COALESCE(array_agg(position::int ORDER BY position DESC), '{}') AS positions FROM inbox
       WHERE ($1::text IS NULL OR status = $1) AND ($2::text IS NULL OR type = $2) AND ($3::text IS NULL OR key = $3)
         AND ($4::timestamptz IS NULL OR received_at >= $4)`,
      [filter.status, filter.type, filter.key, filter.since],
    )) as [{ positions: number[] }];
    expect(pages.flat()).toEqual(positions);
  });

  it('end soon after a time limit, not at the end of the table', async () => {
    const { rows, edge } = await store.list(filterOf({ since: ago(-3_600) }), undefined, 51);
    expect([rows, edge]).toEqual([[], undefined]);
  });
});

interface Plan {
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}

/** Rows of the inbox that the statement of a page reads, including filtered ones. */
async function rowsRead(filter: MessageFilter): Promise<number> {
  const reads = replica.app.nest.get(Reads);
  const { queryWithIndexPlans: straight } = reads;
  let asked: [string, readonly unknown[]] | undefined;
  reads.queryWithIndexPlans = (sql, values) => {
    asked = [sql, values];
    return straight.call(reads, sql, values) as never;
  };
  await store.list(filter, undefined, 51);
  reads.queryWithIndexPlans = straight;
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(`BEGIN; ${FORCE_INDEX_PLANS}`);
  const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${asked![0]}`, [...asked![1]]);
  await client.end();
  return readIn(rows[0]['QUERY PLAN'][0].Plan);
}

function readIn(plan: Plan): number {
  const rows = (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0)) * plan['Actual Loops'];
  const own = plan['Relation Name'] === 'inbox' ? rows : 0;
  return own + (plan.Plans ?? []).reduce((sum, child) => sum + readIn(child), 0);
}
