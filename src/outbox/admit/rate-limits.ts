import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import type { Listener, RateLimitRule } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { ADD_RATE, TAKE_TURNS } from './rate-limits.sql.ts';

/**
 * A little below what is allowed, and not all of the burst: what is sent evenly does not arrive evenly, and the receiver
 * counts arrivals. What was sent up to so much earlier may arrive together with what is sent now (a first connection
 * takes longer than the next request), without ever being more than the rate and the burst.
 */
const SHARE = 0.98;
const LATE_SECONDS = 0.15;
/** How far ahead turns are reserved: far enough to be early, near enough to lose little when they are not used. */
const AHEAD_MS = 200;
const MAX_REST_MS = 250;
/** From here on there is no limit: so many per second nobody gets. */
const NO_LIMIT = 10_000;

interface Waiter {
  wanted(): boolean;
  go(mayGo: boolean): void;
}

interface Turns {
  readonly turns: number;
  /** When the first of them is, by our own clock; 1 / rate between them. */
  readonly firstAtMs: number;
}

/** E4: a listener's rate and burst, held over all replicas together by one row in the database. */
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

  /** Resolves when one delivery may be sent; false: it is not wanted any more. */
  pass(listener: number, wanted: () => boolean): Promise<boolean> {
    if (!this.ruleOf(listener)) return Promise.resolve(true);
    return new Promise((go) => {
      const queue = this.queues.get(listener);
      if (queue) queue.push({ wanted, go });
      else {
        const waiting = [{ wanted, go }];
        this.queues.set(listener, waiting);
        void this.serve(listener, waiting);
      }
    });
  }

  /** Reserves turns for those who wait and lets them go one by one, as the rule is now. */
  private async serve(listener: number, waiting: Waiter[]): Promise<void> {
    while (waiting.length > 0) {
      const rule = this.ruleOf(listener);
      if (!rule) letAllGo(waiting);
      else await this.letGo(waiting, rule, await this.take(listener, rule, waiting.length));
      dropUnwanted(waiting);
    }
    this.queues.delete(listener);
  }

  private async letGo(waiting: Waiter[], rule: RateLimitRule, { turns, firstAtMs }: Turns): Promise<void> {
    if (turns === 0) return rest(firstAtMs - AHEAD_MS / 2 - performance.now());
    const everyMs = 1000 / (rule.perSecond * SHARE);
    for (let turn = 0; turn < turns; turn++) {
      const atMs = firstAtMs + turn * everyMs;
      while (performance.now() < atMs) await rest(atMs - performance.now());
      dropUnwanted(waiting);
      waiting.shift()?.go(true);
    }
  }

  private async take(listener: number, rule: RateLimitRule, most: number): Promise<Turns> {
    const askedAtMs = performance.now();
    try {
      const values = [listener, rule.perSecond * SHARE, burstOf(rule), most, AHEAD_MS];
      const [row] = await this.database.query<{ turns: number; ms: number }>(TAKE_TURNS, values);
      // The database answered some time in between.
      if (row) return { turns: row.turns, firstAtMs: (askedAtMs + performance.now()) / 2 + row.ms };
      await this.database.execute(ADD_RATE, [listener]);
      return { turns: 0, firstAtMs: askedAtMs };
    } catch {
      // The database is away: nothing is sent until it is back.
      return { turns: 0, firstAtMs: Number.POSITIVE_INFINITY };
    }
  }

  private ruleOf(listener: number): RateLimitRule | undefined {
    const known = this.listeners.byNumber(listener);
    return known && this.limits(known) ? known.rateLimit : undefined;
  }
}

/** At least half of it, however fast the rate. */
function burstOf({ perSecond, burst }: RateLimitRule): number {
  return Math.max(Math.ceil(burst / 2), Math.floor(burst - perSecond * LATE_SECONDS));
}

function letAllGo(waiting: Waiter[]): void {
  for (const { go } of waiting.splice(0)) go(true);
}

function dropUnwanted(waiting: Waiter[]): void {
  const kept = waiting.filter(({ wanted, go }) => wanted() || void go(false));
  if (kept.length < waiting.length) waiting.splice(0, waiting.length, ...kept);
}

function rest(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(ms, 1), MAX_REST_MS)));
}
