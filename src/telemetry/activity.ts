import { Injectable } from '@nestjs/common';

/** Durations are counted in buckets that each end a fifth later than the one before; replicas add theirs up. */
const GROWTH = 1.2;
const LOG_GROWTH = Math.log(GROWTH);

export interface ListenerActivity {
  delivered: number;
  failed: number;
  /** Number of attempts by bucket of their duration. */
  readonly durations: Record<string, number>;
}

/** What happened on this replica since it was last reported. */
export interface ActivityCounts {
  accepted: number;
  applied: number;
  failed: number;
  dead: number;
  readonly listeners: Record<string, ListenerActivity>;
  /** Messages that consumer groups committed. */
  readonly groups: Record<string, number>;
}

/** Counts in memory what the metrics count, for rates over all replicas: nothing on the way of a message waits for it. */
@Injectable()
export class Activity {
  private counts = noActivity();

  /** Counted and not yet taken. */
  get pending(): ActivityCounts {
    return this.counts;
  }

  accepted(): void {
    this.counts.accepted += 1;
  }

  applied(messages: number): void {
    this.counts.applied += messages;
  }

  failed(isDead: boolean): void {
    this.counts.failed += 1;
    if (isDead) this.counts.dead += 1;
  }

  attempted(listener: string, isDelivered: boolean, durationMs: number): void {
    const counts = listenerOf(this.counts, listener);
    if (isDelivered) counts.delivered += 1;
    else counts.failed += 1;
    const bucket = bucketOf(durationMs);
    counts.durations[bucket] = (counts.durations[bucket] ?? 0) + 1;
  }

  committed(group: string, messages: number): void {
    if (messages > 0) this.counts.groups[group] = (this.counts.groups[group] ?? 0) + messages;
  }

  take(): ActivityCounts {
    const taken = this.counts;
    this.counts = noActivity();
    return taken;
  }

  /** Adds counts that could not be reported. */
  giveBack(taken: ActivityCounts): void {
    const newer = this.counts;
    this.counts = taken;
    addActivity(this.counts, newer);
  }
}

export function noActivity(): ActivityCounts {
  // Without a prototype: a listener may be named `constructor`.
  return {
    accepted: 0,
    applied: 0,
    failed: 0,
    dead: 0,
    listeners: Object.create(null) as Record<string, ListenerActivity>,
    groups: Object.create(null) as Record<string, number>,
  };
}

export function isIdle({ accepted, applied, failed, listeners, groups }: ActivityCounts): boolean {
  const isQuiet = accepted + applied + failed === 0;
  return isQuiet && Object.keys(listeners).length === 0 && Object.keys(groups).length === 0;
}

export function addActivity(total: ActivityCounts, more: ActivityCounts): void {
  total.accepted += more.accepted;
  total.applied += more.applied;
  total.failed += more.failed;
  total.dead += more.dead;
  for (const [name, { delivered, failed, durations }] of Object.entries(more.listeners)) {
    const listener = listenerOf(total, name);
    listener.delivered += delivered;
    listener.failed += failed;
    for (const [bucket, count] of Object.entries(durations))
      listener.durations[bucket] = (listener.durations[bucket] ?? 0) + count;
  }
  for (const [name, count] of Object.entries(more.groups))
    total.groups[name] = (total.groups[name] ?? 0) + count;
}

/** The duration that 95 % of the attempts did not exceed, up to a fifth too high; null without attempts. */
export function p95Ms(durations: Readonly<Record<string, number>>): number | null {
  const buckets = Object.entries(durations)
    .map(([bucket, count]) => [Number(bucket), count] as const)
    .sort(([a], [b]) => a - b);
  let rest = buckets.reduce((sum, [, count]) => sum + count, 0) * 0.95;
  for (const [bucket, count] of buckets) {
    rest -= count;
    if (rest <= 0) return Math.round(GROWTH ** bucket * 10) / 10;
  }
  return null;
}

function listenerOf({ listeners }: ActivityCounts, name: string): ListenerActivity {
  listeners[name] ??= { delivered: 0, failed: 0, durations: {} };
  return listeners[name];
}

function bucketOf(durationMs: number): number {
  return Math.max(0, Math.ceil(Math.log(Math.max(durationMs, 1)) / LOG_GROWTH));
}
