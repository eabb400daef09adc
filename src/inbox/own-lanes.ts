/** Injection token of the OwnLanes; nothing is injected without CELLS. */
export const OWN_LANES = Symbol('OwnLanes');

/** With CELLS: which messages belong to the database of this engine. */
export interface OwnLanes {
  has(lane: number): boolean;
}
