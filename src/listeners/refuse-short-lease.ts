import { formatDuration } from '../config/duration.ts';
import { maxCallMs, minLeaseMs } from '../config/max-call.ts';
import { SettingsError } from '../config/settings.ts';
import type { Listener } from './listener.ts';

const MAX_NAMED = 5;

/** OUTBOX_LEASE was shortened after a listener with a long timeout was created. Throws a SettingsError of one line. */
export function refuseShortLease(leaseMs: number, listeners: readonly Listener[]): void {
  const maxMs = maxCallMs(leaseMs);
  const tooLong = listeners
    .filter(({ mode, timeoutMs }) => mode !== 'pull' && timeoutMs > maxMs)
    .toSorted((a, b) => b.timeoutMs - a.timeoutMs);
  if (tooLong.length === 0) return;
  const named = tooLong
    .slice(0, MAX_NAMED)
    .map(({ name, timeoutMs }) => `${name} ${formatDuration(timeoutMs)}`);
  const more = tooLong.length > MAX_NAMED ? ` and ${tooLong.length - MAX_NAMED} more` : '';
  const needed = formatDuration(minLeaseMs(tooLong[0]!.timeoutMs));
  throw new SettingsError([
    `OUTBOX_LEASE=${formatDuration(leaseMs)} is too short for the timeout of listeners (${named.join(', ')}${more}); ` +
      `set ${needed} or more, or start with that and shorten their timeout first`,
  ]);
}
