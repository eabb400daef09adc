import { afterEach, describe, expect, it } from '@jest/globals';
import { rowsFiltered } from '../../test/support/rows-filtered.ts';
import { sharedClient } from '../../test/support/shared-client.ts';
import { FORCE_INDEX_PLANS } from '../database/force-index-plans.ts';
import {
  BUSY_LANES,
  BUSY_LANES_OF,
  DELIVERED,
  END_AS_DEAD,
  PUT_BACK_DELIVERIES,
  UNTOUCHED,
} from './outbox.sql.ts';

const { database, client } = sharedClient();

afterEach(() => database.query(`TRUNCATE outbox, hold; DELETE FROM lane WHERE queue = 'outbox'`));

interface Plan {
  readonly 'Node Type': string;
  readonly Plans?: readonly Plan[];
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
}

/** Runs a statement as the store does; returns what it read, and how. */
async function explained(
  sql: string,
  values: unknown[],
): Promise<{ blocks: number; ways: string[]; rows: number }> {
  await client.query('BEGIN');
  await client.query(FORCE_INDEX_PLANS);
  const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`, values);
  await client.query('ROLLBACK');
  const plan: Plan & { 'Actual Rows': number } = rows[0]['QUERY PLAN'][0].Plan;
  const ways = new Set<string>();
  const visit = (node: Plan) => {
    ways.add(node['Node Type']);
    node.Plans?.forEach(visit);
  };
  visit(plan);
  return {
    blocks: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
    ways: [...ways],
    rows: plan['Actual Rows'],
  };
}

/** Listeners with 16 lanes each. */
const listeners = (count: number) =>
  database.query(
    `INSERT INTO lane (queue, lane)
     SELECT 'outbox', listener * 256 + n FROM generate_series(1, $1::int) AS listener, generate_series(0, 15) AS n`,
    [count],
  );

const pending = (from: number, to: number, each: number, status: 'pending' | 'finished') =>
  database.query(
    `INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at)
     SELECT listener, listener * 256 + n % 16, n, 'k-' || n, 1, $4, CASE WHEN $4 = 'finished' THEN now() END
     FROM generate_series($1::int, $2::int) AS listener, generate_series(1, $3::int) AS n`,
    [from, to, each, status],
  );

const scan = (closed: readonly number[] = []) => explained(BUSY_LANES, [closed, -1, 1_000]);

describe('the search for lanes with something to send', () => {
  it('reads almost nothing for a thousand idle listeners, on a table that is empty, grown or analysed', async () => {
    await listeners(1_000);
    const empty = await scan();
    await pending(1, 1_000, 40, 'finished');
    const grown = await scan();
    await database.query('VACUUM ANALYZE outbox, lane, hold');
    const analysed = await scan();
    for (const { blocks, ways } of [empty, grown, analysed]) {
      expect(blocks).toBeLessThan(20);
      expect(ways).not.toContain('Seq Scan');
      expect(ways).not.toContain('Bitmap Heap Scan');
    }
  });

  it('takes one step for each busy lane and one for each closed listener, for any number of pending deliveries', async () => {
    await listeners(1_000);
    await pending(1, 100, 300, 'pending');
    await pending(1_000, 1_000, 3, 'pending');
    await database.query('VACUUM outbox');
    const closed = Array.from({ length: 100 }, (_, n) => n + 1);
    const { blocks, rows, ways } = await scan(closed);
    expect(rows).toBe(3 + 1);
    expect(blocks).toBeLessThan(100 * 4 + 3 * 10);
    expect(ways).not.toContain('Seq Scan');
  });

  it('finds due holds and when the next is due, except infinite ones and those of closed listeners', async () => {
    await listeners(10);
    const hold = (lane: number, key: string, until: string) =>
      database.query(
        `INSERT INTO hold (queue, lane, key, until, reason) VALUES ('outbox', $1, $2, $3, 'retry')`,
        [lane, key, until],
      );
    const soon = new Date(Date.now() + 60_000).toISOString();
    await hold(256, 'late', 'infinity');
    await hold(513, 'due', '-infinity');
    await hold(514, 'due', 'infinity');
    await hold(514, 'soon', soon);
    await hold(1024, 'closed', '-infinity');
    const rows = await database.query<{ lane: number | null; ms: string | null }>(BUSY_LANES, [[4], -1, 10]);
    expect(rows.filter(({ lane }) => lane !== null)).toEqual([{ lane: 513, ms: '0' }]);
    const ms = Number(rows.find(({ lane }) => lane === null)!.ms);
    expect(ms).toBeGreaterThan(50_000);
    expect(ms).toBeLessThanOrEqual(60_000);
  });

  it('leaves out lanes that are leased, and starts after the given lane', async () => {
    await listeners(3);
    await pending(1, 3, 2, 'pending');
    await database.query(`UPDATE lane SET leased_until = now() + interval '1 minute' WHERE lane = 257`);
    const lanes = async (after: number) =>
      (await database.query<{ lane: number | null }>(BUSY_LANES, [[], after, 10]))
        .map(({ lane }) => lane)
        .filter((lane) => lane !== null);
    expect(await lanes(-1)).toEqual([258, 513, 514, 769, 770]);
    expect(await lanes(513)).toEqual([514, 769, 770]);
    expect((await database.query(BUSY_LANES_OF, [1, 10])).map(({ lane }) => lane)).toEqual([258]);
  });
});

describe('statements that change named rows', () => {
  const each = <Value>(positions: readonly number[], value: Value) => positions.map(() => value);

  it.each([
    ['delivered', DELIVERED, (of: number[]) => [of, each(of, 1), each(of, 200), each(of, 5), each(of, null)]],
    ['endAsDead', END_AS_DEAD, (of: number[]) => [of, each(of, 1), each(of, 'e')]],
    ['put back', PUT_BACK_DELIVERIES, (of: number[]) => [of, each(of, 1), each(of, 'e'), each(of, true)]],
    ['untouched', UNTOUCHED, (of: number[]) => [of, each(of, 1)]],
  ])('reads only them, whatever the statistics are: %s', async (_, sql, values) => {
    await listeners(10);
    await pending(1, 10, 500, 'finished');
    await pending(1, 1, 200, 'pending');
    await database.query('VACUUM ANALYZE outbox');
    const marked = await database.query<{ position: string }>(
      `UPDATE outbox SET status = 'processing', attempt = 1 WHERE status = 'pending' RETURNING position`,
    );
    const positions = marked.map(({ position }) => Number(position));
    expect(await rowsFiltered(client, FORCE_INDEX_PLANS, sql, values(positions))).toEqual({
      filtered: 0,
      returned: 0,
    });
  });
});
