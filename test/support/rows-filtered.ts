import type pg from 'pg';
import { literal } from './literal.ts';

interface Plan {
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Actual Loops': number;
  readonly Plans?: readonly Plan[];
}

/**
 * Runs a statement as its store does, planned with its values and, as a prepared statement, with a generic plan, and rolls
 * it back. `filtered`: rows that were read and removed by a filter. `returned`: rows that the last execution returned or changed.
 */
export async function rowsFiltered(
  client: pg.Client,
  settings: string,
  sql: string,
  values: unknown[],
): Promise<{ filtered: number; returned: number }> {
  await client.query('BEGIN');
  await client.query(settings);
  await client.query(`PREPARE measured AS ${sql}`);
  await client.query('SAVEPOINT before');
  const given = values.length > 0 ? `(${values.map(literal)})` : '';
  const prepared = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE measured ${given}`);
  await client.query('ROLLBACK TO SAVEPOINT before');
  const planned = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${sql}`, values);
  const { rowCount } = await client.query(sql, values);
  await client.query('ROLLBACK');
  await client.query('DEALLOCATE measured');
  const removed = [prepared, planned].map(({ rows }) => removedIn(rows[0]['QUERY PLAN'][0].Plan));
  return { filtered: Math.max(...removed), returned: rowCount ?? 0 };
}

function removedIn(plan: Plan): number {
  const own = (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Join Filter'] ?? 0);
  return own * plan['Actual Loops'] + (plan.Plans ?? []).reduce((sum, child) => sum + removedIn(child), 0);
}
