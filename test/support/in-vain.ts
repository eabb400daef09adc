import type pg from 'pg';

interface Plan {
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Actual Loops': number;
  readonly Plans?: readonly Plan[];
}

/**
 * Runs a statement as its store does and takes it back: how many rows it looked at that were not the right ones, and how
 * many were left for it the second time.
 */
export async function inVain(
  client: pg.Client,
  settings: string,
  sql: string,
  values: unknown[],
): Promise<{ lookedAt: number; left: number }> {
  await client.query('BEGIN');
  await client.query(settings);
  const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${sql}`, values);
  const { rowCount } = await client.query(sql, values);
  await client.query('ROLLBACK');
  return { lookedAt: removedIn(rows[0]['QUERY PLAN'][0].Plan), left: rowCount ?? 0 };
}

function removedIn(plan: Plan): number {
  const own = (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Join Filter'] ?? 0);
  return own * plan['Actual Loops'] + (plan.Plans ?? []).reduce((sum, child) => sum + removedIn(child), 0);
}
