import { Injectable } from '@nestjs/common';
import type { Statement } from '../../database/database.ts';
import { Activity, type ActivityCounts, addActivity, noActivity, p95Ms } from '../../telemetry/activity.ts';
import { ReplicaIdentity } from '../replicas/replica-identity.ts';
import { type WindowRow, windowOf } from './activity-store.ts';

export const WINDOW_SECONDS = 30;
/** Rows are written every ten seconds. */
const MAX_AGE_MS = 2_000;

/** What happens per second now, over all replicas: what they wrote, and what this one has counted since. */
@Injectable()
export class Rates {
  private last: { readonly atMs: number; readonly rows: readonly WindowRow[] } | undefined;

  constructor(
    private readonly activity: Activity,
    private readonly identity: ReplicaIdentity,
  ) {}

  /** The statement whose rows `now()` needs; none while it has those of a moment ago. */
  due(): readonly Statement[] {
    const isRecent = this.last && performance.now() - this.last.atMs < MAX_AGE_MS;
    return isRecent ? [] : [windowOf(WINDOW_SECONDS)];
  }

  /** With the rows of `due()`, if there was a statement. */
  now(rows: readonly WindowRow[] | undefined) {
    if (rows) this.last = { atMs: performance.now(), rows };
    const { atMs, rows: written } = this.last!;
    const ageSeconds = (performance.now() - atMs) / 1000;
    const [own, others] = [noActivity(), noActivity()];
    for (const row of written) addActivity(row.replica === this.identity.id ? own : others, countsOf(row));
    addActivity(own, this.activity.pending);
    return ratesOf(others, own, WINDOW_SECONDS + (written[0]?.secondsSince ?? 0) + ageSeconds);
  }
}

/** Own counts are from a longer time: they include what is not written yet. */
function ratesOf(others: ActivityCounts, own: ActivityCounts, ownSeconds: number) {
  const rate = (other = 0, mine = 0) => rounded(other / WINDOW_SECONDS + mine / ownSeconds);
  const all = noActivity();
  addActivity(all, others);
  addActivity(all, own);
  return {
    windowSeconds: WINDOW_SECONDS,
    acceptedPerSecond: rate(others.accepted, own.accepted),
    appliedPerSecond: rate(others.applied, own.applied),
    listeners: Object.entries(all.listeners)
      .sort(byName)
      .map(([name, { delivered, failed, durations }]) => ({
        name,
        deliveredPerSecond: rate(others.listeners[name]?.delivered, own.listeners[name]?.delivered),
        failedPerSecond: rate(others.listeners[name]?.failed, own.listeners[name]?.failed),
        successRatio: delivered + failed > 0 ? rounded(delivered / (delivered + failed), 4) : null,
        p95Ms: p95Ms(durations),
      })),
    groups: Object.keys(all.groups)
      .sort()
      .map((name) => ({ name, committedPerSecond: rate(others.groups[name], own.groups[name]) })),
  };
}

function countsOf({ listeners, groups, ...row }: WindowRow): ActivityCounts {
  const { accepted, applied, failed, dead } = row;
  const counted = { accepted: accepted ?? 0, applied: applied ?? 0, failed: failed ?? 0, dead: dead ?? 0 };
  return { ...counted, listeners: listeners ?? {}, groups: groups ?? {} };
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

function rounded(value: number, digits = 2): number {
  return Number(value.toFixed(digits));
}
