/** A call must end this long before the lease of its lane expires. */
const MARGIN_MS = 10_000;

/** The longest call that a lease covers. (The half applies only to leases in tests that are shorter than OUTBOX_LEASE allows.) */
export function maxCallMs(leaseMs: number): number {
  return leaseMs - Math.min(MARGIN_MS, leaseMs / 2);
}

/** The shortest lease that covers a call. */
export function minLeaseMs(callMs: number): number {
  return callMs + MARGIN_MS;
}
