/** A call ends this long before its lane could be somebody else's. */
const MARGIN_MS = 10_000;

/** The longest call that a lease of that length covers. (Half of it only where a lease is shorter than OUTBOX_LEASE may be.) */
export function maxCallMs(leaseMs: number): number {
  return leaseMs - Math.min(MARGIN_MS, leaseMs / 2);
}

/** The shortest lease that covers a call of that length. */
export function minLeaseMs(callMs: number): number {
  return callMs + MARGIN_MS;
}
