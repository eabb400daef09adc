import type { Cron } from './cron.ts';

export const ON_MISSED = ['one', 'skip', 'all'] as const;
export type OnMissed = (typeof ON_MISSED)[number];

/** A tick that is later than this was missed: nobody was there. Until then it is only late. */
export const LATE_MS = 60_000;
/** Of those that were missed. */
export const MAX_MISSED = 1_000;

export interface DueTicks {
  readonly ticks: readonly Date[];
  readonly nextAt: Date;
  /** Ticks from here on, up to a minute ago, that nobody was there for; how they are made up for is the policy. */
  readonly missedFrom: Date | undefined;
}

/** Pure: what is to be posted now, and when to look again. `nextAt` is the first tick that was not posted yet. */
export function dueTicks(cron: Cron, nextAt: Date, now: Date, onMissed: OnMissed): DueTicks {
  const lateFrom = new Date(now.getTime() - LATE_MS);
  const beforeNext = new Date(nextAt.getTime() - 1);
  const missed = nextAt < lateFrom ? missedTicks(cron, beforeNext, lateFrom, onMissed) : [];
  const late = cron.between(nextAt < lateFrom ? lateFrom : beforeNext, now, LATE_MS / 1_000 + 1);
  return {
    ticks: [...missed, ...late],
    nextAt: cron.after(now),
    missedFrom: nextAt < lateFrom ? nextAt : undefined,
  };
}

function missedTicks(cron: Cron, from: Date, to: Date, onMissed: OnMissed): Date[] {
  if (onMissed === 'skip') return [];
  if (onMissed === 'all') return cron.between(from, to, MAX_MISSED);
  const last = cron.last(from, to);
  return last ? [last] : [];
}
