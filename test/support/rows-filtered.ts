import type pg from 'pg';
import { literal } from './literal.ts';

interface Plan {
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Actual Loops': number;
  readonly Plans?: readonly Plan[];
}

/**
 * Runs a statement as its store does, planned for its values and, as one that is kept, without them, and takes it back:
 * how many rows it looked at that were not the right ones, and how many were left for it the second time.
 */
export async function rowsFiltered(
  client: pg.Client,
  settings: string,
  sql: string,
  values: unknown[],
): Promise<{ lookedAt: number; left: number }> {
  await client.query('BEGIN');
  await client.query(settings);
  await client.query(`PREPARE looked_at AS ${sql}`);
  await client.query('SAVEPOINT before');
  const kept = await client.query(
    `EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE looked_at (${values.map(literal)})`,
  );
  await client.query('ROLLBACK TO SAVEPOINT before');
  const planned = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${sql}`, values);
  const { rowCount } = await client.query(sql, values);
  await client.query('ROLLBACK');
  await client.query('DEALLOCATE looked_at');
  const removed = [kept, planned].map(({ rows }) => removedIn(rows[0]['QUERY PLAN'][0].Plan));
  return { lookedAt: Math.max(...removed), left: rowCount ?? 0 };
}

function removedIn(plan: Plan): number {
  const own = (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Join Filter'] ?? 0);
  return own * plan['Actual Loops'] + (plan.Plans ?? []).reduce((sum, child) => sum + removedIn(child), 0);
}
