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

/** Who puts rows that ended back into the queue, some of a lane at a time: a ruling or a replay. */
export interface Requeuer {
  readonly name: string;
  /** What its holds say to people. */
  readonly note: string;
  /** A key that waits behind a dead letter goes on. */
  readonly passesDeadLetters: boolean;
}

export interface ChangedKey {
  readonly key: string;
  /** How many of its rows. */
  readonly changed: number;
  /** Some of it is left. */
  readonly partial: boolean;
}

/** Until the transaction ends. */
export async function lockLane(tx: Transaction, { stage, lane }: LaneRef): Promise<void> {
  await tx.query(LOCK_LANE, [stage, lane]);
}

/** The same; false: somebody is at it, and is not waited for. */
export async function tryLockLane(tx: Transaction, { stage, lane }: LaneRef): Promise<boolean> {
  return (await tx.query(TRY_LOCK_LANE, [stage, lane])).length > 0;
}

/** Whether it is half way through the key. */
export async function isPartlyRequeued(
  tx: Transaction,
  { stage, lane }: LaneRef,
  key: string,
  { name }: Requeuer,
): Promise<boolean> {
  const rows = await tx.query(HAS_REQUEUE_HOLD, [stage, lane, key, name]);
  return rows.length > 0;
}

/** In a locked lane: what was put back goes on before whatever waits behind it, as soon as nothing of its key is left. */
export async function holdRequeuedKeys(
  tx: Transaction,
  place: LaneRef,
  keys: readonly ChangedKey[],
  { name, note, passesDeadLetters }: Requeuer,
): Promise<void> {
  const { stage, lane } = place;
  const halfWay = keys.find((key) => key.partial);
  const whole = completedKeys(keys);
  const due = completedKeys(keys.filter(({ changed }) => changed > 0));
  await Promise.all([
    halfWay && tx.execute(SET_REQUEUE_HOLD, [stage, lane, halfWay.key, name, note, passesDeadLetters]),
    // Before they are let go: after, it would end the hold of one that died meanwhile.
    tx.execute(SET_DUE, [stage, lane, due, name, note, passesDeadLetters]),
    tx.execute(REMOVE_REQUEUE_HOLD, [stage, lane, whole, name]),
    endDeadLetterHolds(tx, place, whole),
  ]);
}

/** Of keys whose dead letters were dealt with; one that is kept ends when it is let go. */
export async function endDeadLetterHolds(
  tx: Transaction,
  { stage, lane }: LaneRef,
  keys: readonly string[],
): Promise<void> {
  await tx.execute(endDeadLetterHold(stage), [stage, lane, keys]);
}

/** Nothing of them is left. */
export function completedKeys(keys: readonly ChangedKey[]): string[] {
  return keys.filter(({ partial: halfWay }) => !halfWay).map(({ key }) => key);
}
