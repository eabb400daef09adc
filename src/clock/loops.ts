import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { type Role, SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Loop, type Pass } from './loop.ts';

/** A loop that has not ended a pass for this long is taken for dead: far above any statement's timeout. */
const STALLED_AFTER_MS = 180_000;

/** Every loop of this replica: when most of them run, and what health and metrics tell of all. */
@Injectable()
export class Loops implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly all: Loop[] = [];
  private readonly lasting: Loop[] = [];

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Pick<Settings, 'roles'>,
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

  onApplicationBootstrap(): void {
    for (const loop of this.lasting) loop.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all(this.lasting.map((loop) => loop.stop()));
  }

  /** One that runs as long as the service does, on replicas of this role. */
  run(role: Role | 'any', name: string, idleMs: number, pass: Pass): Loop {
    const loop = this.create(name, idleMs, pass);
    if (role === 'any' || this.settings.roles.includes(role)) this.lasting.push(loop);
    return loop;
  }

  /** One whose owner starts and stops it. */
  create(name: string, idleMs: number, pass: Pass): Loop {
    const loop = new Loop(name, pass, { idleMs, log: this.log });
    this.all.push(loop);
    return loop;
  }

  /** Names of the loops whose pass does not end. A database that is away makes passes fail, not stand still; a rest ends. */
  stalled(now = Date.now()): string[] {
    return this.all
      .filter((loop) => loop.isRunning && !loop.isIdle && now - loop.lastCycleAt > STALLED_AFTER_MS)
      .map((loop) => loop.name);
  }
}
