import { formatDuration } from '../config/duration.ts';
import { longestCallMs, shortestLeaseMs } from '../config/longest-call.ts';
import { SettingsError } from '../config/settings.ts';
import type { Listener } from './listener.ts';

const MOST_NAMED = 5;

/** OUTBOX_LEASE was shortened after a listener with a long timeout was made. Throws a SettingsError of one line. */
export function refuseShortLease(leaseMs: number, listeners: readonly Listener[]): void {
  const longestMs = longestCallMs(leaseMs);
  const tooLong = listeners
    .filter(({ timeoutMs }) => timeoutMs > longestMs)
    .toSorted((a, b) => b.timeoutMs - a.timeoutMs);
  if (tooLong.length === 0) return;
  const named = tooLong
    .slice(0, MOST_NAMED)
    .map(({ name, timeoutMs }) => `${name} ${formatDuration(timeoutMs)}`);
  const more = tooLong.length > MOST_NAMED ? ` and ${tooLong.length - MOST_NAMED} more` : '';
  const needed = formatDuration(shortestLeaseMs(tooLong[0]!.timeoutMs));
  throw new SettingsError([
    `OUTBOX_LEASE=${formatDuration(leaseMs)} is too short for the timeout of listeners (${named.join(', ')}${more}); ` +
      `set ${needed} or more, or start with that and shorten their timeout first`,
  ]);
}
