import type { Transaction } from '../../database/transaction.ts';

/** jobs.rebuild */
export const OPEN_REBUILD = 'SELECT model FROM rebuild WHERE ended_at IS NULL LIMIT 1';

/** jobs.lock — none begins until the transaction ends. */
export const LOCK_JOBS = 'LOCK TABLE rebuild, replay, ruling IN SHARE MODE';

/** No rebuild, replay or bulk action begins until the transaction ends. */
export async function lockJobs(tx: Transaction): Promise<void> {
  await tx.execute(LOCK_JOBS);
}

/** The read model that is being rebuilt: a rebuild knows how far it has read each lane. */
export async function rebuiltModel(tx: Transaction): Promise<string | undefined> {
  const [rebuild] = await tx.query<{ model: string }>(OPEN_REBUILD);
  return rebuild?.model;
}
