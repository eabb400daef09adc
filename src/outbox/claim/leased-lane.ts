import type { Probe } from '../admit/gates.ts';

/** A lane that this replica owns, from its lease to its release. */
export interface LeasedLane {
  readonly lane: number;
  /** Proves that this replica owns the lane. */
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

export function leasedLane(
  given: Pick<LeasedLane, 'lane' | 'token' | 'listener' | 'maxRows' | 'untilMs' | 'probe' | 'safeUntilMs'>,
): LeasedLane {
  return { ...given, probed: false, ending: false, lost: false };
}
