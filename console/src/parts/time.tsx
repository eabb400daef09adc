import { now } from '../clock.ts';
import { exactTime, relative } from '../format.ts';

/** A relative time; the exact one on hover. */
export function Ago({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">–</span>;
  return (
    <time dateTime={at} title={exactTime(at)}>
      {relative(Date.parse(at), now.value)}
    </time>
  );
}

/** A time of day with its date, for lists that are read as a record. */
export function Exact({ at }: { at: string }) {
  const date = new Date(at);
  const day = date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
  return (
    <time dateTime={at} title={`${relative(Date.parse(at), now.value)} (${at})`} class="nowrap">
      {day}, {date.toLocaleTimeString('en-GB')}
    </time>
  );
}
