import { randomUUID } from 'node:crypto';
import { isConflictOfTransactions, isDatabaseAway } from '../../database/errors.ts';
import { Problem } from '../../http/problems.ts';
import type { ResponsesInFlight } from '../../http/responses-in-flight.ts';
import { keepsOrder, type Listener } from '../../listeners/listener.ts';
import type {
  DeliveryPlace,
  HandedOutDelivery,
  HandOut,
  HandOutRequest,
  HandOutStore,
} from './hand-out-store.ts';
import { type PullLimits, type PullResult, share } from './pull-request.ts';
import { emptyBecause } from './why-empty.ts';

/** What a queue needs from the rest. */
export interface PullQueueDeps {
  readonly store: HandOutStore;
  readonly responses: ResponsesInFlight;
  readonly pollMs: number;
  /** The listener as it is defined now. */
  current(): Listener | undefined;
  /** These were handed out and reached no consumer. */
  giveBack(listener: Listener, token: string, rows: readonly DeliveryPlace[]): void;
  /** It is not known whether this hand-out was committed. */
  uncertain(listener: Listener, token: string): void;
  handedOut(listener: Listener, rows: readonly HandedOutDelivery[]): void;
}

interface Waiter {
  readonly limits: PullLimits;
  readonly untilMs: number;
  readonly resolve: (result: PullResult) => void;
  readonly reject: (error: unknown) => void;
  /** A scan has begun since it came. */
  scanned: boolean;
}

/** Of one hand-out for all requests that wait. */
const MAX_ROWS = 2_000;
const MAX_BYTES = 32 * 1024 * 1024;
const MIN_IDLE_MS = 5;
const NOTHING: PullResult = { token: '', rows: [] };
const MIN_DEPTH = 1.25;
const MAX_DEPTH = 16;
const DEPTH_DECAY = 0.9;

/**
 * The requests of this replica to pull from one listener. All of them share one scan: it hands out to the oldest request
 * first, and while there is nothing, they wait without a connection for a wake-up, for a hold that is due, or for the next
 * poll.
 */
export class PullQueue {
  private readonly waiters = new Set<Waiter>();
  private serving: Promise<void> | undefined;
  private woken = false;
  private interruptIdle: () => void = () => undefined;
  /** What is in flight may be why nothing could be handed out; or that is not known yet. */
  private blocked = true;
  private stopped = false;
  private depth = MIN_DEPTH;

  constructor(private readonly deps: PullQueueDeps) {}

  get size(): number {
    return this.waiters.size;
  }

  /** When the signal is aborted, it resolves at once, with nothing. */
  pull(limits: PullLimits, signal: AbortSignal): Promise<PullResult> {
    if (signal.aborted) return Promise.resolve(NOTHING);
    return new Promise((resolve, reject) => {
      const untilMs = this.stopped ? 0 : performance.now() + limits.waitMs;
      const waiter: Waiter = { limits, untilMs, resolve, reject, scanned: false };
      this.waiters.add(waiter);
      signal.addEventListener('abort', () => this.leave(waiter), { once: true });
      this.wake();
      this.serving ??= this.serve();
    });
  }

  /** There may be more to hand out. */
  wake(): void {
    this.woken = true;
    this.interruptIdle();
  }

  /** Something is no longer in flight. */
  wakeIfBlocked(): void {
    if (this.blocked) this.wake();
  }

  /** Those that wait get their response at once. */
  async stop(): Promise<void> {
    this.stopped = true;
    for (const waiter of this.waiters) if (waiter.scanned) this.end(waiter, NOTHING);
    this.wake();
    await this.serving;
  }

  private leave(waiter: Waiter): void {
    this.end(waiter, NOTHING);
    this.wake();
  }

  private end(waiter: Waiter, result: PullResult): void {
    if (this.waiters.delete(waiter)) waiter.resolve(result);
  }

  private async serve(): Promise<void> {
    // Requests that arrive in the same turn of the event loop share the first scan.
    await new Promise(setImmediate);
    while (this.waiters.size > 0) {
      this.woken = false;
      const batch = this.takeBatch();
      const idleMs = await this.serveBatch(batch).catch((error) => this.failed(batch, error));
      if (idleMs > 0 && [...this.waiters].every(({ scanned }) => scanned)) await this.idle(idleMs);
    }
    this.serving = undefined;
  }

  /** Returns how long to wait before the next scan. */
  private async serveBatch(batch: readonly Waiter[]): Promise<number> {
    this.blocked = true;
    const listener = this.deps.current();
    if (listener?.mode !== 'pull') throw new Problem('not-found', 'No listener has this name.');
    const found = listener.state === 'active' ? await this.handOut(listener, batch) : undefined;
    this.blocked = found !== undefined && (found.keysInFlight || found.inFlight > 0);
    const nowMs = performance.now();
    for (const waiter of batch)
      if (waiter.untilMs <= nowMs || this.stopped)
        this.end(waiter, { ...NOTHING, empty: emptyBecause(listener, found) });
    if (found && found.rows.length > 0) return 0;
    const rateMs = found?.limited ? 1000 / listener.rateLimit!.perSecond : Number.POSITIVE_INFINITY;
    const firstEndMs = Math.min(...[...this.waiters].map(({ untilMs }) => untilMs)) - nowMs;
    const holdMs = this.waiters.size > 0 ? await this.deps.store.nextHoldMs(listener.number) : undefined;
    const idleMs = Math.min(this.deps.pollMs, holdMs ?? this.deps.pollMs, rateMs, firstEndMs);
    return Math.max(MIN_IDLE_MS, idleMs);
  }

  private async handOut(listener: Listener, batch: readonly Waiter[]): Promise<HandOut> {
    const token = randomUUID();
    const { number, leaseMs, maxInFlight, rateLimit } = listener;
    const limits = batch.map((waiter) => waiter.limits);
    const maxRows = limits.reduce((sum, { max }) => sum + max, 0);
    const maxBytes = limits.reduce((sum, limit) => sum + limit.maxBytes, 0);
    const { depth } = this;
    const ordered = keepsOrder(listener);
    const found = await this.handOutWithin(maxBytes, listener, {
      listener: number,
      token,
      maxRows,
      leaseMs,
      maxInFlight,
      rateLimit,
      ordered,
      depth,
    });
    this.deps.handedOut(listener, found.rows);
    const isShort = found.more && found.rows.length < maxRows;
    this.depth = isShort ? Math.min(MAX_DEPTH, depth * 2) : Math.max(MIN_DEPTH, depth * DEPTH_DECAY);
    const present = batch.filter((waiter) => this.waiters.has(waiter));
    const { shares, left } = share(
      found.rows,
      present.map((waiter) => waiter.limits),
    );
    for (const [index, waiter] of present.entries())
      if (shares[index]!.length > 0) this.end(waiter, { token, rows: shares[index]! });
    if (left.length > 0) this.deps.giveBack(listener, token, left);
    return found;
  }

  private async handOutWithin(
    maxBytes: number,
    listener: Listener,
    request: Omit<HandOutRequest, 'maxBytes'>,
  ): Promise<HandOut> {
    const room = this.deps.responses.reserve(maxBytes);
    try {
      return await this.deps.store.handOut({ ...request, maxBytes: room.bytes });
    } catch (error) {
      if (isDatabaseAway(error)) this.deps.uncertain(listener, request.token);
      throw error;
    } finally {
      room.release();
    }
  }

  /** The oldest requests, as far as one hand-out may serve them. */
  private takeBatch(): Waiter[] {
    const batch: Waiter[] = [];
    let rows = 0;
    let bytes = 0;
    for (const waiter of this.waiters) {
      rows += waiter.limits.max;
      bytes += waiter.limits.maxBytes;
      if (batch.length > 0 && (rows > MAX_ROWS || bytes > MAX_BYTES)) break;
      waiter.scanned = true;
      batch.push(waiter);
    }
    return batch;
  }

  /** A conflict with another transaction passes: those that may wait do. */
  private failed(batch: readonly Waiter[], error: unknown): number {
    const passes = isConflictOfTransactions(error);
    const nowMs = performance.now();
    for (const waiter of batch)
      if ((!passes || waiter.untilMs <= nowMs || this.stopped) && this.waiters.delete(waiter))
        waiter.reject(error);
    return this.deps.pollMs;
  }

  private idle(ms: number): Promise<void> {
    if (this.woken) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.interruptIdle = () => undefined;
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.interruptIdle = done;
    });
  }
}
