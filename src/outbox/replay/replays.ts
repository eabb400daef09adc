import { Inject, Injectable } from '@nestjs/common';
import { Backoffs } from '../../clock/backoffs.ts';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { DeliveryMetrics } from '../health/delivery-metrics.ts';
import { ReplayStore, type Step } from './replay-store.ts';

/** Max deliveries per step; their lane is locked for as long as it takes. */
const DELIVERIES_PER_STEP = 500;
/** Max deliveries in flight of one replay; then it waits until they are sent. A key that was started is completed. */
const MAX_IN_FLIGHT = 500;
/**
 * Deliveries that one transaction scans for those that match the filter: a third of a second on a busy machine if all of
 * them match. The next part waits as long as this one took, so that half of the time is left to other work.
 */
const DELIVERIES_PER_PART = 10_000;
const POLL_MS = 500;

const LIMITS = {
  selected: DELIVERIES_PER_PART,
  deliveries: DELIVERIES_PER_STEP,
  inFlight: MAX_IN_FLIGHT,
};

/** Sends old deliveries again, a few at a time, so that live traffic is not slowed down. */
@Injectable()
export class Replays {
  private readonly loop: Loop;
  private readonly backoffs = new Backoffs();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly store: ReplayStore,
    private readonly wakeups: Wakeups,
    private readonly metrics: DeliveryMetrics,
    loops: Loops,
  ) {
    this.loop = loops.run('upkeep', 'replay', POLL_MS, () => this.pass());
  }

  /** After a replay was created. */
  wake(): void {
    this.loop.wake();
  }

  /** One step of each replay: one whose listener is down reaches its limit in flight, and the others go on. */
  private async pass(): Promise<Next> {
    const lanes = new Set<number>();
    let full = false;
    let selectingMs = 0;
    for (const replay of await this.store.unfinished()) {
      if (this.backoffs.isBackingOff(replay)) continue;
      const startedAtMs = performance.now();
      const step = await this.step(replay);
      if (step?.kind === 'selected') selectingMs += performance.now() - startedAtMs;
      if (step?.kind === 'reopened') {
        lanes.add(step.lane);
        this.metrics.replayed(step.deliveries);
      }
      if (step?.kind === 'full') full = true;
    }
    if (lanes.size > 0) {
      this.wakeups.announce('outbox', lanes);
      return 'again';
    }
    if (selectingMs > 0) return { afterMs: Math.min(selectingMs, POLL_MS) };
    return full ? 'soon' : 'idle';
  }

  /** A replay that fails is retried later, and the others go on. */
  private step(replay: number): Promise<Step | undefined> {
    return this.backoffs.attempt(
      replay,
      () => this.store.step(replay, LIMITS),
      (error, retryInMs) =>
        this.log.error(
          { event: 'listener.replay-failed', replay, retryInMs, error },
          'a step of a replay failed; it is retried',
        ),
    );
  }
}
