import { Inject, Injectable } from '@nestjs/common';
import type { Loop } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { PacedJobs } from '../../lanes/paced-jobs.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { DeliveryMetrics } from '../health/delivery-metrics.ts';
import { ReplayStore } from './replay-store.ts';

/** Max deliveries per step; their lane is locked for as long as it takes. */
const DELIVERIES_PER_STEP = 500;
/** Max deliveries in flight of one replay; then it waits until they are sent. A key that was started is completed. */
const MAX_IN_FLIGHT = 500;
/** Deliveries that one transaction scans for those that match the filter: a third of a second on a busy machine if all of them match. */
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

  constructor(
    @Inject(LOG) log: Log,
    store: ReplayStore,
    wakeups: Wakeups,
    metrics: DeliveryMetrics,
    loops: Loops,
  ) {
    const jobs = new PacedJobs({
      wakeups,
      unfinished: () => store.unfinished(),
      step: (replay) => store.step(replay, LIMITS),
      onChanged: ({ rows }) => metrics.replayed(rows),
      onFailed: (replay, error, retryInMs) =>
        log.error(
          { event: 'listener.replay-failed', replay, retryInMs, error },
          'a step of a replay failed; it is retried',
        ),
    });
    this.loop = loops.run('upkeep', 'replay', POLL_MS, () => jobs.pass());
  }

  /** After a replay was created. */
  wake(): void {
    this.loop.wake();
  }
}
