import { Injectable } from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { DeliveryMetrics } from '../delivery-metrics.ts';
import { ReplayStore } from './replay-store.ts';

const KEYS_PER_STEP = 100;
/** Of one replay; beyond, it waits until they are sent. All deliveries of a key are reopened together. */
const MOST_IN_FLIGHT = 500;
const POLL_MS = 500;

/** Sends old deliveries again, a few keys at a time, so that live traffic is not drowned. */
@Injectable()
export class Replays {
  private readonly loop: Loop;

  constructor(
    private readonly store: ReplayStore,
    private readonly wakeups: Wakeups,
    private readonly metrics: DeliveryMetrics,
    loops: Loops,
  ) {
    this.loop = loops.run('upkeep', 'replay', POLL_MS, () => this.pass());
  }

  /** A replay was asked for. */
  wake(): void {
    this.loop.wake();
  }

  /** A step of each: one whose listener is down has enough on its way, and the others go on. */
  private async pass(): Promise<Next> {
    const lanes = new Set<number>();
    let full = false;
    for (const replay of await this.store.unfinished()) {
      const step = await this.store.step(replay, KEYS_PER_STEP, MOST_IN_FLIGHT);
      if (step?.kind === 'reopened') {
        lanes.add(step.lane);
        this.metrics.replayed(step.deliveries);
      }
      if (step?.kind === 'full') full = true;
    }
    if (lanes.size > 0) {
      this.wakeups.written('outbox', lanes);
      return 'again';
    }
    return full ? 'soon' : 'idle';
  }
}
