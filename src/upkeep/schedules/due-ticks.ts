import type { Cron } from './cron.ts';

export const ON_MISSED = ['one', 'skip', 'all'] as const;
export type OnMissed = (typeof ON_MISSED)[number];

/** A tick overdue by more than this was missed: no replica was running. Up to this it is only late. */
export const LATE_MS = 60_000;
/** Max missed ticks that are posted. */
export const MAX_MISSED = 1_000;

export interface DueTicks {
  readonly ticks: readonly Date[];
  readonly nextAt: Date;
  /** The first missed tick; missed ticks go from here up to a minute ago. The policy decides which of them are posted. */
  readonly missedFrom: Date | undefined;
}

/** Decides which ticks to post now and which one is next; a pure function. `nextAt` is the first tick not posted yet. */
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
