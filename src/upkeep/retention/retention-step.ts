import type { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';

/** retention.turn — only one replica sweeps at a time. */
export const TRY_TURN = `SELECT pg_try_advisory_xact_lock(hashtext('sluice'), hashtext('retention.turn')) AS mine`;

/**
 * retention.blockEntries — waits for transactions that point further entries to settled messages (rejections and revives of
 * groups), and keeps out new ones until this one ends. Without it, an entry could point to a message that is removed here.
 */
export const BLOCK_ENTRIES = `SELECT pg_advisory_xact_lock(hashtext('sluice'), hashtext('retention'))`;

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
