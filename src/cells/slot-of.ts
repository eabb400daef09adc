import { laneOf } from '../lanes/lane-of.ts';

/**
 * The number of slots. It is that of the inbox's lanes, so a slot is a lane: every row knows its slot, the rows of a slot
 * are found by an index, and a slot's worker is the worker of a lane (docs/decisions/0024-cells.md).
 */
export const SLOTS = 256;

/** The slot of a key. FROZEN, as `laneOf()` is: it decides in which database a key is. */
export function slotOf(key: string): number {
  return laneOf(key, SLOTS);
}
