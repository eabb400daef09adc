import type { Transaction } from '../../database/transaction.ts';
import { LOCK_JOBS, OPEN_REBUILD } from './jobs.sql.ts';

/** No rebuild, replay or bulk action begins until the transaction ends. */
export async function lockJobs(tx: Transaction): Promise<void> {
  await tx.execute(LOCK_JOBS);
}

/** The read model that is being rebuilt: a rebuild knows how far it has read each lane. */
export async function rebuiltModel(tx: Transaction): Promise<string | undefined> {
  const [rebuild] = await tx.query<{ model: string }>(OPEN_REBUILD);
  return rebuild?.model;
}
