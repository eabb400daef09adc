import type { TestDatabase } from './database.ts';
import { until } from './until.ts';

/** Resolves when no message of the inbox waits or is in flight. */
export async function untilSettled(database: Pick<TestDatabase, 'query'>): Promise<void> {
  await until(async () => {
    const open = await database.query('SELECT FROM inbox WHERE settled_at IS NULL LIMIT 1');
    return open.length === 0;
  });
}
