import { Inject, Injectable } from '@nestjs/common';
import { LOG, type Log } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Loop, type Next } from './loop.ts';

/** A loop that has not ended a pass for this long is taken for dead: far above any statement's timeout. */
const STANDSTILL_MS = 180_000;

/** Every loop of this replica, for health and metrics. */
@Injectable()
export class Loops {
  private readonly all: Loop[] = [];

  constructor(
    @Inject(LOG) private readonly log: Log,
    metrics: Metrics,
  ) {
    const loops = this.all;
    metrics.gauge({
      name: 'loop_last_cycle_timestamp_seconds',
      help: 'When each loop last ended a pass.',
      labelNames: ['loop'],
      collect() {
        for (const loop of loops) if (loop.isRunning) this.set({ loop: loop.name }, loop.lastCycleAt / 1000);
      },
    });
    metrics.gauge({
      name: 'loop_last_progress_timestamp_seconds',
      help: 'When a pass of each loop last went well.',
      labelNames: ['loop'],
      collect() {
        for (const loop of loops)
          if (loop.isRunning) this.set({ loop: loop.name }, loop.lastProgressAt / 1000);
      },
    });
  }

  create(
    name: string,
    idleMs: number,
    pass: (signal: AbortSignal, progressed: () => void) => Promise<Next>,
  ): Loop {
    const loop = new Loop(name, pass, { idleMs, log: this.log });
    this.all.push(loop);
    return loop;
  }

  /** Names of the loops that stopped cycling. A database that is away makes passes fail, not stand still. */
  standingStill(now = Date.now()): string[] {
    return this.all
      .filter((loop) => loop.isRunning && now - loop.lastCycleAt > STANDSTILL_MS)
      .map((loop) => loop.name);
  }
}
