import type { Transaction } from '../database/transaction.ts';
import type { Stage } from './lane-metrics.ts';
import {
  endDeadLetterHold,
  HAS_REQUEUE_HOLD,
  LOCK_LANE,
  REMOVE_REQUEUE_HOLD,
  SET_DUE,
  SET_REQUEUE_HOLD,
  TRY_LOCK_LANE,
} from './requeue-holds.sql.ts';

/** A lane of a queue. */
export interface LaneRef {
  readonly stage: Stage;
  readonly lane: number;
}

/** An operator's revive or discard, or a replay: it puts ended rows back into the queue, part of a lane at a time. */
export interface Requeuer {
  readonly name: string;
  /** The note on its holds, for people. */
  readonly note: string;
  /** Whether a key that is held by a dead letter continues. */
  readonly passesDeadLetters: boolean;
}

export interface ChangedKey {
  readonly key: string;
  /** How many of its rows were put back. */
  readonly changed: number;
  /** Some of its rows are still to be put back. */
  readonly partial: boolean;
}

/** Locks the lane until the transaction ends. */
export async function lockLane(tx: Transaction, { stage, lane }: LaneRef): Promise<void> {
  await tx.query(LOCK_LANE, [stage, lane]);
}

/** The same without waiting; false: another transaction has locked the lane. */
export async function tryLockLane(tx: Transaction, { stage, lane }: LaneRef): Promise<boolean> {
  return (await tx.query(TRY_LOCK_LANE, [stage, lane])).length > 0;
}

/** Whether the requeuer has put back some rows of the key, and not yet all. */
export async function isPartlyRequeued(
  tx: Transaction,
  { stage, lane }: LaneRef,
  key: string,
  { name }: Requeuer,
): Promise<boolean> {
  const rows = await tx.query(HAS_REQUEUE_HOLD, [stage, lane, key, name]);
  return rows.length > 0;
}

/** In a locked lane: the rows that were put back are processed before later rows, once all of their key are put back. */
export async function holdRequeuedKeys(
  tx: Transaction,
  laneRef: LaneRef,
  keys: readonly ChangedKey[],
  { name, note, passesDeadLetters }: Requeuer,
): Promise<void> {
  const { stage, lane } = laneRef;
  const partial = keys.find((key) => key.partial);
  const completed = completedKeys(keys);
  const due = completedKeys(keys.filter(({ changed }) => changed > 0));
  await Promise.all([
    partial && tx.execute(SET_REQUEUE_HOLD, [stage, lane, partial.key, name, note, passesDeadLetters]),
    // Before the requeue holds are removed: afterwards it would end the hold of a message that became a dead letter since.
    tx.execute(SET_DUE, [stage, lane, due, name, note, passesDeadLetters]),
    tx.execute(REMOVE_REQUEUE_HOLD, [stage, lane, completed, name]),
    endDeadLetterHolds(tx, laneRef, completed),
  ]);
}

/** For keys whose dead letters were revived or discarded; where a requeue hold is set, the hold ends with that. */
export async function endDeadLetterHolds(
  tx: Transaction,
  { stage, lane }: LaneRef,
  keys: readonly string[],
): Promise<void> {
  await tx.execute(endDeadLetterHold(stage), [stage, lane, keys]);
}

/** Keys of which all rows are put back. */
export function completedKeys(keys: readonly ChangedKey[]): string[] {
  return keys.filter(({ partial }) => !partial).map(({ key }) => key);
}
