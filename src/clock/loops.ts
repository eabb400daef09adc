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

/** A loop whose pass takes longer than this is considered stalled; far above the timeout of any statement. */
const STALLED_AFTER_MS = 180_000;

/** All loops of this replica: starts and stops most of them, and reports on all of them to health checks and metrics. */
@Injectable()
export class Loops implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly all: Loop[] = [];
  private readonly managed: Loop[] = [];

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Pick<Settings, 'roles'>,
    @Inject(LOG) private readonly log: Log,
    metrics: Metrics,
  ) {
    const timeGauge = (name: string, help: string, timeOf: (loop: Loop) => number) => {
      const loops = this.all;
      metrics.gauge(name, help, {
        labelNames: ['loop'],
        collect() {
          for (const loop of loops) if (loop.isRunning) this.set({ loop: loop.name }, timeOf(loop) / 1000);
        },
      });
    };
    timeGauge(
      'loop_last_cycle_timestamp_seconds',
      'When each loop last completed a pass, successfully or not.',
      (loop) => loop.lastCycleAt,
    );
    timeGauge(
      'loop_last_progress_timestamp_seconds',
      'When a pass of each loop last succeeded or reported progress.',
      (loop) => loop.lastProgressAt,
    );
  }

  onApplicationBootstrap(): void {
    for (const loop of this.managed) loop.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all(this.managed.map((loop) => loop.stop()));
  }

  /** A loop that runs as long as the service does, on replicas with this role. */
  run(role: Role | 'any', name: string, idleMs: number, pass: Pass): Loop {
    const loop = this.create(name, idleMs, pass);
    if (role === 'any' || this.settings.roles.includes(role)) this.managed.push(loop);
    return loop;
  }

  /** The same for work that is repeated after `idleMs`, whatever it found. */
  every(role: Role | 'any', name: string, idleMs: number, work: () => Promise<unknown>): Loop {
    return this.run(role, name, idleMs, async () => {
      await work();
      return 'idle';
    });
  }

  /** A loop that its owner starts and stops. */
  create(name: string, idleMs: number, pass: Pass): Loop {
    const loop = new Loop(name, pass, { idleMs, log: this.log });
    this.all.push(loop);
    return loop;
  }

  /** Names of the loops whose pass does not end. An idle loop is not stalled, nor is one whose passes fail. */
  stalled(now = Date.now()): string[] {
    return this.all
      .filter((loop) => loop.isRunning && !loop.isIdle && now - loop.lastCycleAt > STALLED_AFTER_MS)
      .map((loop) => loop.name);
  }
}
