import type { Transaction } from '../database/transaction.ts';
import {
  END_OF_DEAD_LETTER,
  KEEP,
  KEEPS,
  LET_GO,
  LOCK_LANE,
  LOCK_LANE_AT_REST,
  SET_DUE,
} from './kept-holds.sql.ts';
import type { Stage } from './lane-metrics.ts';

/** A lane of a queue. */
export interface Place {
  readonly stage: Stage;
  readonly lane: number;
}

/** Who puts rows that ended back into the queue, some of a lane at a time: a ruling or a replay. */
export interface Keeper {
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
  readonly halfWay: boolean;
}

/** Until the transaction ends. */
export async function lockLane(tx: Transaction, { stage, lane }: Place): Promise<void> {
  await tx.query(LOCK_LANE, [stage, lane]);
}

/** The same; false: somebody is at it, and is not waited for. */
export async function lockLaneAtRest(tx: Transaction, { stage, lane }: Place): Promise<boolean> {
  return (await tx.query(LOCK_LANE_AT_REST, [stage, lane])).length > 0;
}

/** Whether it is half way through the key. */
export async function isHalfWay(
  tx: Transaction,
  { stage, lane }: Place,
  key: string,
  { name }: Keeper,
): Promise<boolean> {
  const rows = await tx.query(KEEPS, [stage, lane, key, name]);
  return rows.length > 0;
}

/** In a locked lane: what was put back goes on before whatever waits behind it, as soon as nothing of its key is left. */
export async function putBehindHolds(
  tx: Transaction,
  place: Place,
  keys: readonly ChangedKey[],
  { name, note, passesDeadLetters }: Keeper,
): Promise<void> {
  const { stage, lane } = place;
  const halfWay = keys.find((key) => key.halfWay);
  const whole = wholeOnes(keys);
  const due = wholeOnes(keys.filter(({ changed }) => changed > 0));
  await Promise.all([
    halfWay && tx.execute(KEEP, [stage, lane, halfWay.key, name, note, passesDeadLetters]),
    // Before they are let go: after, it would end the hold of one that died meanwhile.
    tx.execute(SET_DUE, [stage, lane, due, name, note, passesDeadLetters]),
    tx.execute(LET_GO, [stage, lane, whole, name]),
    endDeadLetterHolds(tx, place, whole),
  ]);
}

/** Of keys whose dead letters were dealt with; one that is kept ends when it is let go. */
export async function endDeadLetterHolds(
  tx: Transaction,
  { stage, lane }: Place,
  keys: readonly string[],
): Promise<void> {
  await tx.execute(END_OF_DEAD_LETTER(stage), [stage, lane, keys]);
}

/** Nothing of them is left. */
export function wholeOnes(keys: readonly ChangedKey[]): string[] {
  return keys.filter(({ halfWay }) => !halfWay).map(({ key }) => key);
}
