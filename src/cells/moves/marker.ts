import type { Transaction } from '../../database/transaction.ts';

/** marker.enter — locks it until the transaction ends. $1 move */
export const ADD_MARKER = 'INSERT INTO cell_marker (id) VALUES ($1) ON CONFLICT DO NOTHING';
export const LOCK_MARKER = 'SELECT outcome FROM cell_marker WHERE id = $1 FOR UPDATE';

/** marker.set — $1 move, $2 outcome */
export const SET_MARKER = `UPDATE cell_marker SET outcome = $2 WHERE id = $1 AND outcome = 'open'`;

/** `arrived`: its rows are in this database; `undone`: nothing of it takes effect here any more. */
export type Outcome = 'open' | 'arrived' | 'undone';

/** The move was undone by another replica, or is finished. */
export class MoveEnded extends Error {}

/** The first statement of every transaction of a mover: one that was thought dead changes nothing once its move is undone. */
export async function enter(tx: Transaction, move: string): Promise<void> {
  const outcome = await lock(tx, move);
  if (outcome !== 'open') throw new MoveEnded(`the move is ${outcome} already`);
}

/** At the end of the transaction that brings the rows: its COMMIT decides the move. */
export async function markArrived(tx: Transaction, move: string): Promise<void> {
  await tx.execute(SET_MARKER, [move, 'arrived']);
}

/** Waits for a transaction of the mover. Afterwards it can change nothing here, unless everything has arrived already. */
export async function undoUnlessArrived(tx: Transaction, move: string): Promise<Outcome> {
  const outcome = await lock(tx, move);
  if (outcome === 'open') await tx.execute(SET_MARKER, [move, 'undone']);
  return outcome === 'arrived' ? 'arrived' : 'undone';
}

async function lock(tx: Transaction, move: string): Promise<Outcome> {
  const [, rows] = await Promise.all([
    tx.execute(ADD_MARKER, [move]),
    tx.query<{ outcome: Outcome }>(LOCK_MARKER, [move]),
  ]);
  return rows[0]!.outcome;
}
