import { Inject, Injectable } from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Setbacks } from '../../clock/setbacks.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { DeliveryMetrics } from '../delivery-metrics.ts';
import { ReplayStore, type Step } from './replay-store.ts';

/** Their lane is locked for so long. */
const DELIVERIES_PER_STEP = 500;
/** Of one replay; beyond, it waits until they are sent. All deliveries of a key go on together. */
const MOST_IN_FLIGHT = 500;
const POLL_MS = 500;

/** Sends old deliveries again, a few at a time, so that live traffic is not drowned. */
@Injectable()
export class Replays {
  private readonly loop: Loop;
  private readonly setbacks = new Setbacks();

  constructor(
    @Inject(LOG) private readonly log: Log,
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
      if (this.setbacks.rests(replay)) continue;
      const step = await this.step(replay);
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

  /** One that fails is tried again later, and the others go on. */
  private step(replay: number): Promise<Step | undefined> {
    return this.setbacks.attempt(
      replay,
      () => this.store.step(replay, DELIVERIES_PER_STEP, MOST_IN_FLIGHT),
      (error, retryInMs) =>
        this.log.error(
          { event: 'listener.replay-failed', replay, retryInMs, error },
          'a step of a replay failed; it is tried again',
        ),
    );
  }
}
