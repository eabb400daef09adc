import { type LeasedLane, leasedLane } from '../../src/outbox/claim/leased-lane.ts';

/** A lane of the listener 1 that a test holds for an hour, under the token of its row. */
export function leasedForAnHour(lane: number, token: string, maxRows = 1): LeasedLane {
  const untilMs = performance.now() + 3_600_000;
  return leasedLane({ lane, token, listener: 1, maxRows, untilMs, probe: undefined, safeUntilMs: untilMs });
}
