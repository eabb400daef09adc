import { type Finding, failed, ok, warning } from './finding.ts';

/** The queue uses only the database's clock; signatures and `dueAt` are compared with other clocks. */
const WARNING_MS = 2_000;
/** Receivers refuse signatures that are too old. */
const FAILED_MS = 60_000;

export function clockFinding(check: string, aheadMs: number): Finding {
  const found = `${(Math.abs(aheadMs) / 1000).toFixed(1)} s ${aheadMs < 0 ? 'behind' : 'ahead of'} this machine`;
  if (Math.abs(aheadMs) < WARNING_MS) return ok(check, found);
  const next = 'run NTP on both machines: signatures contain the time, and receivers refuse old ones';
  return Math.abs(aheadMs) < FAILED_MS ? warning(check, found, next) : failed(check, found, next);
}
