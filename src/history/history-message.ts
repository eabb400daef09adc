/** The order in which messages were applied: by `applied`, then by position. Messages that were imported have applied 0. */
export interface Place {
  readonly applied: number;
  readonly position: number;
}

/** A finished message as history keeps it: what a denormalizer sees, and its place. */
export interface HistoryMessage extends Place {
  readonly lane: number;
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  /** JSON text, exactly as it was posted. */
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | null;
  /** RFC 3339, in UTC. */
  readonly occurredAt: string | null;
  /** Milliseconds since 1970. */
  readonly receivedMs: number;
}

/** Before every place: messages without `applied` count as 0. */
export const START: Place = { applied: 0, position: 0 };

/** Lanes are archived in groups: blocks of single lanes would be too small. */
export const LANES_PER_GROUP = 16;
export const LANE_GROUPS = 16;

export function laneGroupOf(lane: number): number {
  return Math.floor(lane / LANES_PER_GROUP);
}

export function comparePlaces(a: Place, b: Place): number {
  return a.applied - b.applied || a.position - b.position;
}
