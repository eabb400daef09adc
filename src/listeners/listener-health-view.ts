/** What keeps deliveries from being sent to a listener at the moment. */
export interface HealthRow {
  readonly listener: number;
  readonly openings: number;
  readonly closed_until: Date | null;
  readonly reason: string | null;
  readonly limited_until: Date | null;
}

/** Of a listener that nothing has happened to. */
const HEALTHY = { openings: 0, closed_until: null, reason: null, limited_until: null };

export function healthView(row: HealthRow | undefined, rateLimit: { perSecond: number } | undefined) {
  const { openings, closed_until: closedUntil, reason, limited_until: limitedUntil } = row ?? HEALTHY;
  const isOpen = openings > 0;
  return {
    /** Open: calls failed, and only a probe is sent from time to time. */
    circuit: isOpen ? ('open' as const) : ('closed' as const),
    /** Nothing is sent until then: the circuit is open, or the listener asked for a pause. */
    closedUntil,
    reason: isOpen || closedUntil !== null ? reason : null,
    rate: { perSecond: rateLimit?.perSecond ?? null, limitedUntil },
  };
}
