import type { Probe } from '../admit/gates.ts';

/** A lane that this replica holds, from its lease to its release. */
export interface HeldLane {
  readonly lane: number;
  /** Proves that this replica holds the lane. */
  readonly token: string;
  /** The listener that the lane belongs to. */
  readonly listener: number;
  /** Max deliveries per claim; grows when the receiver turns out to be quick. */
  maxRows: number;
  /** When the lane is released even if it has more to send, so that other lanes get their turn. */
  readonly untilMs: number;
  /** Set when an open circuit is tried: the run sends one delivery and releases the lane. */
  readonly probe: Probe | undefined;
  /** The delivery of the probe was sent. */
  probed: boolean;
  /** By this replica's clock, no other replica can take the lane before. */
  safeUntilMs: number;
  /** The lane is being released. */
  ending: boolean;
  /** Taken over by another replica, or given up: nothing more is sent on it, and no result of it can be written. */
  lost: boolean;
}

export function heldLane(
  given: Pick<HeldLane, 'lane' | 'token' | 'listener' | 'maxRows' | 'untilMs' | 'probe' | 'safeUntilMs'>,
): HeldLane {
  return { ...given, probed: false, ending: false, lost: false };
}
