import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import type { Listener, RateLimitRule } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { ADD_RATE, RESERVE_PERMITS } from './rate-limits.sql.ts';

/**
 * Slightly below the allowed rate, and not the whole burst: requests that are sent evenly do not arrive evenly, and the
 * receiver counts arrivals. Requests sent up to LATE_SECONDS earlier may arrive together with the current one (a first
 * connection takes longer than the next request) without exceeding the rate and the burst.
 */
const SHARE = 0.98;
const LATE_SECONDS = 0.15;
/** How far ahead permits are reserved: far enough to have them in time, near enough to lose few when they are not used. */
const AHEAD_MS = 200;
const MAX_SLEEP_MS = 250;
/** A limit of this or more counts as none: no listener gets that many per second. */
const NO_LIMIT = 10_000;

interface Waiter {
  stillWanted(): boolean;
  resolve(granted: boolean): void;
}

interface Permits {
  readonly permits: number;
  /** Time of the first one, by this replica's clock; the others follow 1 / rate apart. */
  readonly firstAtMs: number;
}

/** The rate and burst of a listener, kept by all replicas together through one row in the database. */
@Injectable()
export class RateLimits {
  private readonly queues = new Map<number, Waiter[]>();

  constructor(
    private readonly database: Database,
    private readonly listeners: Listeners,
  ) {}

  limits({ rateLimit }: Pick<Listener, 'rateLimit'>): boolean {
    return rateLimit !== undefined && rateLimit.perSecond < NO_LIMIT;
  }

  /** Resolves with true when one delivery may be sent, with false when it is no longer wanted. */
  pass(listener: number, stillWanted: () => boolean): Promise<boolean> {
    if (!this.ruleOf(listener)) return Promise.resolve(true);
    return new Promise((resolve) => {
      const queue = this.queues.get(listener);
      if (queue) queue.push({ stillWanted, resolve });
      else {
        const waiting = [{ stillWanted, resolve }];
        this.queues.set(listener, waiting);
        void this.serve(listener, waiting);
      }
    });
  }

  /** Reserves permits for the waiting deliveries and releases them one by one, by the current rule. */
  private async serve(listener: number, waiting: Waiter[]): Promise<void> {
    while (waiting.length > 0) {
      const rule = this.ruleOf(listener);
      if (!rule) releaseAll(waiting);
      else await this.release(waiting, rule, await this.take(listener, rule, waiting.length));
      dropUnwanted(waiting);
    }
    this.queues.delete(listener);
  }

  private async release(
    waiting: Waiter[],
    rule: RateLimitRule,
    { permits, firstAtMs }: Permits,
  ): Promise<void> {
    if (permits === 0) return sleep(firstAtMs - AHEAD_MS / 2 - performance.now());
    const everyMs = 1000 / (rule.perSecond * SHARE);
    for (let permit = 0; permit < permits; permit++) {
      const atMs = firstAtMs + permit * everyMs;
      while (performance.now() < atMs) await sleep(atMs - performance.now());
      dropUnwanted(waiting);
      waiting.shift()?.resolve(true);
    }
  }

  private async take(listener: number, rule: RateLimitRule, maxTurns: number): Promise<Permits> {
    const requestedAtMs = performance.now();
    try {
      const values = [listener, rule.perSecond * SHARE, burstOf(rule), maxTurns, AHEAD_MS];
      const [row] = await this.database.query<{ permits: number; ms: number }>(RESERVE_PERMITS, values);
      // The database's clock was read at some time in between.
      if (row) return { permits: row.permits, firstAtMs: (requestedAtMs + performance.now()) / 2 + row.ms };
      await this.database.execute(ADD_RATE, [listener]);
      return { permits: 0, firstAtMs: requestedAtMs };
    } catch {
      // The database is away: nothing is sent until it is back.
      return { permits: 0, firstAtMs: Number.POSITIVE_INFINITY };
    }
  }

  private ruleOf(listener: number): RateLimitRule | undefined {
    const known = this.listeners.byNumber(listener);
    return known && this.limits(known) ? known.rateLimit : undefined;
  }
}

/** At least half of the burst, however fast the rate. */
function burstOf({ perSecond, burst }: RateLimitRule): number {
  return Math.max(Math.ceil(burst / 2), Math.floor(burst - perSecond * LATE_SECONDS));
}

function releaseAll(waiting: Waiter[]): void {
  for (const { resolve } of waiting.splice(0)) resolve(true);
}

function dropUnwanted(waiting: Waiter[]): void {
  const kept = waiting.filter(({ stillWanted, resolve }) => stillWanted() || void resolve(false));
  if (kept.length < waiting.length) waiting.splice(0, waiting.length, ...kept);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(ms, 1), MAX_SLEEP_MS)));
}
