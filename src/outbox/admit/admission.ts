import { Injectable } from '@nestjs/common';
import type { Listener } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { MAX_CONNECTIONS } from '../../webhooks/webhook-sender.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import { HeldLanes } from '../claim/held-lanes.ts';
import { DeliverySender } from '../send/delivery-sender.ts';
import type { Outcome } from '../send/outcome.ts';
import { ConcurrencyWindow } from './concurrency-window.ts';
import { Draining } from './draining.ts';
import { Gates } from './gates.ts';
import { RateLimits } from './rate-limits.ts';

/** Whether and when one more delivery may be sent on a lane. */
@Injectable()
export class Admission {
  private readonly windows = new Map<number, ConcurrencyWindow>();

  constructor(
    private readonly listeners: Listeners,
    private readonly gates: Gates,
    private readonly rates: RateLimits,
    private readonly lanes: HeldLanes,
    private readonly sender: DeliverySender,
    private readonly draining: Draining,
  ) {}

  /**
   * Waits for room in the listener's window and for its rate. Answers with the listener as it is defined now: a secret
   * or a URL may have changed since the lane was claimed. Undefined: nothing is to be sent on this lane now.
   * Most have nothing to wait for, and are spared the promise.
   */
  admit(held: HeldLane): Listener | undefined | Promise<Listener | undefined> {
    const listener = held.probed ? undefined : this.open(held);
    if (!listener) return undefined;
    const window = this.windowOf(held.listener);
    if (this.rates.limits(listener) || !this.lanes.coversNow(held, this.sender.callMs(listener)))
      return this.waitIn(window, held);
    if (!window.tryEnter()) return this.waitIn(window, held);
    held.probed = held.probe !== undefined;
    return listener;
  }

  leave(held: HeldLane, outcome: Outcome | undefined): void {
    const went = outcome === undefined ? 'badly' : howItWent(outcome);
    this.windowOf(held.listener).leave(went);
  }

  /** May the listener of this lane be sent to now? */
  open({
    listener: number,
    probe,
    lost,
  }: Pick<HeldLane, 'listener' | 'probe' | 'lost'>): Listener | undefined {
    const listener = this.listeners.byNumber(number);
    if (lost || this.draining.stopping.aborted || listener?.state !== 'active') return undefined;
    return probe || !this.gates.isClosed(number) ? listener : undefined;
  }

  private async waitIn(window: ConcurrencyWindow, held: HeldLane): Promise<Listener | undefined> {
    await window.enter();
    const listener = await this.granted(held);
    if (listener) held.probed = held.probe !== undefined;
    else window.leave('badly');
    return listener;
  }

  /** The lease last: whatever was waited for before, the lane must be ours for as long as the call may take. */
  private async granted(held: HeldLane): Promise<Listener | undefined> {
    const inTurn = await this.rates.pass(held.listener, () => this.open(held) !== undefined);
    const listener = inTurn ? this.open(held) : undefined;
    if (!listener) return undefined;
    const ours = await this.lanes.covers(held, this.sender.callMs(listener), this.draining.stopping);
    return ours ? this.open(held) : undefined;
  }

  /** As many calls as connections: one that waited for a connection would use up its time, and be charged to the receiver. */
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
