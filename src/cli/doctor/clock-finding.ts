import { type Finding, fault, ok, warning } from './finding.ts';

/** Everything of the queue goes by the database's clock; signatures and `dueAt` are compared with other ones. */
const UNWISE_MS = 2_000;
/** Receivers refuse a signature that is older. */
const HARMFUL_MS = 60_000;

export function clockFinding(check: string, aheadMs: number): Finding {
  const found = `${(Math.abs(aheadMs) / 1000).toFixed(1)} s ${aheadMs < 0 ? 'behind' : 'ahead of'} this machine`;
  if (Math.abs(aheadMs) < UNWISE_MS) return ok(check, found);
  const next = 'run NTP on both: signatures carry the time, and receivers refuse old ones';
  return Math.abs(aheadMs) < HARMFUL_MS ? warning(check, found, next) : fault(check, found, next);
}
