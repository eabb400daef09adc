import { Inject, Injectable } from '@nestjs/common';
import { maxCallMs } from '../../config/max-call.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { Listener } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { MAX_CONNECTIONS } from '../../webhooks/webhook-sender.ts';
import type { LeasedLane } from '../claim/leased-lane.ts';
import { LeasedLanes } from '../claim/leased-lanes.ts';
import type { Outcome } from '../send/outcome.ts';
import { Draining } from './draining.ts';
import { Gates } from './gates.ts';
import { RateLimits } from './rate-limits.ts';

/** Whether and when one more delivery may be sent on a lane. */
@Injectable()
export class Admission {
  private readonly windows = new Map<number, ConcurrencyWindow>();
  private readonly maxCallMs: number;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    private readonly listeners: Listeners,
    private readonly gates: Gates,
    private readonly rates: RateLimits,
    private readonly lanes: LeasedLanes,
    private readonly draining: Draining,
  ) {
    this.maxCallMs = maxCallMs(settings.outboxLease);
  }

  /**
   * Waits for the listener's concurrency window and for its rate limit. Returns the listener as it is defined now: its
   * secret or URL may have changed since the lane was claimed. Undefined: nothing may be sent on this lane now.
   * Most deliveries have nothing to wait for, so the result is not always a promise.
   */
  admit(leased: LeasedLane): Listener | undefined | Promise<Listener | undefined> {
    const listener = leased.probed ? undefined : this.open(leased);
    if (!listener) return undefined;
    const window = this.windowOf(leased.listener);
    if (this.rates.limits(listener) || !this.lanes.coversNow(leased, this.callMs(listener)))
      return this.waitIn(window, leased);
    if (!window.tryEnter()) return this.waitIn(window, leased);
    leased.probed = leased.probe !== undefined;
    return listener;
  }

  /** Must follow every admission, once. Undefined: nothing was sent. */
  leave(leased: LeasedLane, outcome: Outcome | undefined): void {
    this.windowOf(leased.listener).leave(outcome === undefined ? 'failed' : resultOf(outcome));
  }

  /** The listener of this lane if deliveries may be sent to it now. */
  open({
    listener: number,
    probe,
    lost,
  }: Pick<LeasedLane, 'listener' | 'probe' | 'lost'>): Listener | undefined {
    const listener = this.listeners.byNumber(number);
    if (lost || this.draining.stopping.aborted) return undefined;
    if (listener?.state !== 'active' || listener.mode === 'pull') return undefined;
    return probe || !this.gates.isClosed(number) ? listener : undefined;
  }

  /** Never longer than the lease covers, even if a replica with a longer lease accepted the listener's definition. */
  callMs(listener: Listener): number {
    return Math.min(listener.timeoutMs, this.maxCallMs);
  }

  private async waitIn(window: ConcurrencyWindow, leased: LeasedLane): Promise<Listener | undefined> {
    await window.enter();
    const listener = await this.granted(leased);
    if (listener) leased.probed = leased.probe !== undefined;
    else window.leave('failed');
    return listener;
  }

  /** Checks the lease last: after all other waiting, it must still cover the whole call. */
  private async granted(leased: LeasedLane): Promise<Listener | undefined> {
    const permitted = await this.rates.pass(leased.listener, () => this.open(leased) !== undefined);
    const listener = permitted ? this.open(leased) : undefined;
    if (!listener) return undefined;
    const callMs = this.callMs(listener);
    const covered = await this.lanes.renewUntilCovered(leased, callMs, this.draining.stopping);
    return covered ? this.open(leased) : undefined;
  }

  /** Max calls = max connections: a call that waited for a connection would lose its time, and the receiver an attempt. */
  private windowOf(listener: number): ConcurrencyWindow {
    const known = this.windows.get(listener) ?? new ConcurrencyWindow(MAX_CONNECTIONS);
    this.windows.set(listener, known);
    return known;
  }
}

function resultOf(outcome: Outcome): 'succeeded' | 'failed' | 'overloaded' {
  if (outcome.kind === 'delivered') return 'succeeded';
  return outcome.overloaded ? 'overloaded' : 'failed';
}

const SHRINK_INTERVAL_MS = 1_000;

/**
 * How many calls to one listener this replica makes at a time: halved (at most once a second) when the receiver reports
 * overload (429, 502, 504), and increased by one for every full round of successful calls, up to the max.
 */
export class ConcurrencyWindow {
  private size: number;
  private inFlight = 0;
  private shrunkAtMs = Number.NEGATIVE_INFINITY;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly max: number = Number.POSITIVE_INFINITY) {
    this.size = max;
  }

  /** False: the window is full. Every successful entry must be followed by one `leave`. */
  tryEnter(): boolean {
    if (this.waiting.length > 0 || this.inFlight >= this.size) return false;
    this.inFlight += 1;
    return true;
  }

  /** Resolves when the call may be made. */
  enter(): Promise<void> {
    if (this.tryEnter()) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  leave(result: 'succeeded' | 'failed' | 'overloaded', nowMs: number = performance.now()): void {
    if (result === 'overloaded') this.shrink(nowMs);
    else if (result === 'succeeded') this.size = Math.min(this.max, this.size + 1 / this.size);
    this.inFlight -= 1;
    while (this.waiting.length > 0 && this.inFlight < this.size) {
      this.inFlight += 1;
      this.waiting.shift()!();
    }
  }

  /** Calls that were in flight together count once: sixteen responses of 429 report one overload. */
  private shrink(nowMs: number): void {
    if (nowMs - this.shrunkAtMs < SHRINK_INTERVAL_MS) return;
    this.size = Math.max(1, Math.floor(Math.min(this.size, this.inFlight) / 2));
    this.shrunkAtMs = nowMs;
  }
}
