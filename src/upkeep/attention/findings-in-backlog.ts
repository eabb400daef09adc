import { rowsOfGroups } from '../observation/backlog-view.ts';
import { type Observed, SOON_SECONDS } from '../observation/observation-store.ts';
import type { Finding } from './attention-item.ts';

/** Whatever is ready is normally taken within a second. */
const OLD_SECONDS = 60;
/** During a rebalance partitions have no owner for a moment. */
const UNOWNED_SECONDS = 5;

/** Pure: what in the backlog needs an operator. */
export function findingsInBacklog(
  observed: readonly Observed[],
  at: Date,
  isPulled: (listener: string) => boolean,
): Finding[] {
  return [
    ...inconsistent(observed),
    ...expiring(observed),
    ...observed.flatMap((row) => old(row, at, isPulled)),
    ...rowsOfGroups(observed).flatMap(([group, own]) => ofGroup(group, own, at)),
  ];
}

function old(
  { name, kind, stage, listener, value }: Observed,
  at: Date,
  isPulled: (listener: string) => boolean,
): Finding[] {
  if (name !== 'backlog_oldest_age_seconds' || kind !== 'ready' || value < OLD_SECONDS) return [];
  const subject = { stage: stage!, ...(listener === null ? {} : { listener }) };
  const since = before(at, value);
  if (listener !== null && isPulled(listener))
    return [
      {
        kind: 'queue-not-consumed',
        sentence: `The queue ${listener} has a message that no consumer has acknowledged for ${wordsOf(value)}.`,
        nextStep: 'See whether consumers pull, and acknowledge what they have.',
        subject,
        since,
      },
    ];
  const what = listener === null ? 'A message' : `A delivery to ${listener}`;
  return [
    {
      kind: 'backlog-old',
      sentence: `${what} is ready and has waited for ${wordsOf(value)}.`,
      nextStep: 'See whether replicas are running, and what makes them slow.',
      subject,
      since,
    },
  ];
}

function inconsistent(observed: readonly Observed[]): Finding[] {
  const count = sumOf(observed, 'inconsistent_rows');
  if (count === 0) return [];
  return [
    {
      kind: 'inconsistent-rows',
      sentence: `${count} rows are marked as in work, or as held, and no replica will continue them.`,
      nextStep: 'Keep the rows and report it: this is a bug, or someone changed the tables.',
      subject: {},
      count,
    },
  ];
}

function expiring(observed: readonly Observed[]): Finding[] {
  const count = sumOf(observed, 'messages_expiring_soon');
  if (count === 0) return [];
  return [
    {
      kind: 'expiring-soon',
      sentence: `${count} messages wait and expire within ${SOON_SECONDS / 60} minutes.`,
      nextStep: 'Ask what one of them waits for.',
      subject: { stage: 'inbox' },
      count,
    },
  ];
}

function ofGroup(group: string, own: readonly Observed[], at: Date): Finding[] {
  const [lag, seconds] = [sumOf(own, 'group_lag_messages'), sumOf(own, 'group_lag_seconds')];
  const [unowned, expired] = [sumOf(own, 'group_partitions_unowned'), sumOf(own, 'group_messages_expired')];
  const found: Finding[] = [];
  if (expired > 0)
    found.push({
      kind: 'offsets-expired',
      sentence: `${expired} messages were removed before the group ${group} read them.`,
      nextStep: 'Seek the group to where it should continue.',
      subject: { group },
      count: expired,
    });
  if (unowned > 0 && seconds >= UNOWNED_SECONDS)
    found.push({
      kind: 'partition-unowned',
      sentence: `No member of the group ${group} reads ${unowned} of its partitions.`,
      nextStep: 'Start a consumer, or see why its members left.',
      subject: { group },
      since: before(at, seconds),
      count: unowned,
    });
  if (seconds >= OLD_SECONDS)
    found.push({
      kind: 'consumer-lag',
      sentence: `The group ${group} is ${lag} messages and ${wordsOf(seconds)} behind.`,
      nextStep: 'See whether its members are slow, or too few.',
      subject: { group },
      since: before(at, seconds),
      count: lag,
    });
  return found;
}

function sumOf(rows: readonly Observed[], measure: string): number {
  return rows.filter(({ name }) => name === measure).reduce((sum, { value }) => sum + value, 0);
}

function before(at: Date, seconds: number): Date {
  return new Date(at.getTime() - seconds * 1000);
}

export function wordsOf(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`;
}
