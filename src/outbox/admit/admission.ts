import { Inject, Injectable } from '@nestjs/common';
import { maxCallMs } from '../../config/max-call.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { Listener } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { MAX_CONNECTIONS } from '../../webhooks/webhook-sender.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import { HeldLanes } from '../claim/held-lanes.ts';
import type { Outcome } from '../send/outcome.ts';
import { ConcurrencyWindow } from './concurrency-window.ts';
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
    private readonly lanes: HeldLanes,
    private readonly draining: Draining,
  ) {
    this.maxCallMs = maxCallMs(settings.outboxLease);
  }

  /**
   * Waits for the listener's concurrency window and for its rate limit. Returns the listener as it is defined now: its
   * secret or URL may have changed since the lane was claimed. Undefined: nothing may be sent on this lane now.
   * Most deliveries have nothing to wait for, so the result is not always a promise.
   */
  admit(held: HeldLane): Listener | undefined | Promise<Listener | undefined> {
    const listener = held.probed ? undefined : this.open(held);
    if (!listener) return undefined;
    const window = this.windowOf(held.listener);
    if (this.rates.limits(listener) || !this.lanes.coversNow(held, this.callMs(listener)))
      return this.waitIn(window, held);
    if (!window.tryEnter()) return this.waitIn(window, held);
    held.probed = held.probe !== undefined;
    return listener;
  }

  /** Must follow every admission, once. Undefined: nothing was sent. */
  leave(held: HeldLane, outcome: Outcome | undefined): void {
    this.windowOf(held.listener).leave(outcome === undefined ? 'badly' : howItWent(outcome));
  }

  /** The listener of this lane if deliveries may be sent to it now. */
  open({
    listener: number,
    probe,
    lost,
  }: Pick<HeldLane, 'listener' | 'probe' | 'lost'>): Listener | undefined {
    const listener = this.listeners.byNumber(number);
    if (lost || this.draining.stopping.aborted || listener?.state !== 'active') return undefined;
    return probe || !this.gates.isClosed(number) ? listener : undefined;
  }

  /** Never longer than the lease covers, even if a replica with a longer lease accepted the listener's definition. */
  callMs(listener: Listener): number {
    return Math.min(listener.timeoutMs, this.maxCallMs);
  }

  private async waitIn(window: ConcurrencyWindow, held: HeldLane): Promise<Listener | undefined> {
    await window.enter();
    const listener = await this.granted(held);
    if (listener) held.probed = held.probe !== undefined;
    else window.leave('badly');
    return listener;
  }

  /** Checks the lease last: after all other waiting, it must still cover the whole call. */
  private async granted(held: HeldLane): Promise<Listener | undefined> {
    const inTurn = await this.rates.pass(held.listener, () => this.open(held) !== undefined);
    const listener = inTurn ? this.open(held) : undefined;
    if (!listener) return undefined;
    const covered = await this.lanes.covers(held, this.callMs(listener), this.draining.stopping);
    return covered ? this.open(held) : undefined;
  }

  /** Max calls = max connections: a call that waited for a connection would lose its time, and the receiver be charged. */
  private windowOf(listener: number): ConcurrencyWindow {
    const known = this.windows.get(listener) ?? new ConcurrencyWindow(MAX_CONNECTIONS);
    this.windows.set(listener, known);
    return known;
  }
}

function howItWent(outcome: Outcome): 'well' | 'badly' | 'throttled' {
  if (outcome.kind === 'delivered') return 'well';
  return outcome.throttled ? 'throttled' : 'badly';
}
