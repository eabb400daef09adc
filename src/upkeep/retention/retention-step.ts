import type { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import { BLOCK_ENTRIES, TRY_TURN } from './retention-step.sql.ts';

/** Keeps transactions short: a step takes milliseconds. */
export const ROWS_PER_STEP = 2_000;

/** Tells a sweep when to stop early, and lets it report progress. */
export interface SweepContext {
  readonly signal: AbortSignal;
  readonly progressed: () => void;
}

/** A transaction that removes rows; undefined if another replica is sweeping. */
export function retentionStep<Result>(
  database: Database,
  remove: (tx: Transaction) => Promise<Result>,
): Promise<Result | undefined> {
  return database.transaction(async (tx) => {
    const [turn] = await tx.query<{ mine: boolean }>(TRY_TURN);
    return turn?.mine ? remove(tx) : undefined;
  });
}

/** The same for messages and the entries of topics, which point to messages. */
export function payloadStep<Result>(
  database: Database,
  remove: (tx: Transaction) => Promise<Result>,
): Promise<Result | undefined> {
  return retentionStep(database, async (tx) => {
    await tx.query(BLOCK_ENTRIES);
    return remove(tx);
  });
}

/** Removes in steps until one removes less than it could. */
export async function removeInSteps(
  { signal, progressed }: SweepContext,
  removeSome: (maxRows: number) => Promise<number>,
): Promise<void> {
  while (!signal.aborted && (await removeSome(ROWS_PER_STEP)) === ROWS_PER_STEP) progressed();
}
