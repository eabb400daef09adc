import type { Probe } from '../admit/gates.ts';

/** A lane in the hands of this replica, from its lease to its release. */
export interface HeldLane {
  readonly lane: number;
  /** What proves it. */
  readonly token: string;
  /** Whose lane it is. */
  readonly listener: number;
  /** Most deliveries claimed at a time; more when its receiver turns out to be quick. */
  maxRows: number;
  /** When it is given back even if there is more to send: others may want it. */
  readonly untilMs: number;
  /** Of a circuit that is being tried: one delivery, then it is given back. */
  readonly probe: Probe | undefined;
  /** That delivery was sent. */
  probed: boolean;
  /** By our own clock, nobody else can have it before. */
  safeUntilMs: number;
  /** It is being released. */
  ending: boolean;
  /** Somebody else's now, or given up: nothing more is sent on it, and nothing of it can be written. */
  lost: boolean;
}

export function heldLane(
  given: Pick<HeldLane, 'lane' | 'token' | 'listener' | 'maxRows' | 'untilMs' | 'probe' | 'safeUntilMs'>,
): HeldLane {
  return { ...given, probed: false, ending: false, lost: false };
}
