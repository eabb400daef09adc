import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { type Role, SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Loops } from './loops.ts';

/** The longest delay of a Node timer, 24 days: between two runs the loop waits for the scheduler, not for its own timer. */
const UNTIL_WOKEN_MS = 2 ** 31 - 1;

export interface ScheduledJob {
  /** Replicas with this role run the job. */
  readonly role: Role;
  readonly name: string;
  readonly intervalMs: number;
  /** The first run is at the start instead of one interval later. */
  readonly runAtStart: boolean;
  /** Stops early if `signal` aborts; a long run calls `progressed` so that /livez does not take it for stalled. */
  readonly run: (signal: AbortSignal, progressed: () => void) => Promise<void>;
}

/**
 * All jobs with a fixed interval. `@nestjs/schedule` decides when a job is due; a Loop runs it. So runs of a job never
 * overlap, a failed run is retried with backoff, shutdown waits for the current run, and /livez and the loop metrics see the
 * job. Ticks during a run are dropped: the next run starts at the first tick after it. A job that knows itself when it has
 * more to do, or is woken, is a Loop of its own.
 */
@Injectable()
export class ScheduledJobs implements OnApplicationBootstrap {
  private readonly jobs = new Map<string, ScheduledJob & { readonly tick: () => void }>();

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Pick<Settings, 'roles'>,
    private readonly loops: Loops,
    private readonly scheduler: SchedulerRegistry,
  ) {}

  add(job: ScheduledJob): void {
    const { role, name, run } = job;
    let due = job.runAtStart;
    const loop = this.loops.run(role, name, UNTIL_WOKEN_MS, async (signal, progressed) => {
      if (due) await run(signal, progressed);
      due = false;
      return 'idle';
    });
    const tick = () => {
      due = true;
      loop.wake();
    };
    this.jobs.set(name, { ...job, tick });
  }

  /** Starts a run of the job now, unless one is in progress. */
  tick(name: string): void {
    this.jobs.get(name)?.tick();
  }

  /** Nest's scheduler clears the intervals at shutdown. */
  onApplicationBootstrap(): void {
    for (const { role, name, intervalMs, tick } of this.jobs.values())
      if (this.settings.roles.includes(role)) this.scheduler.addInterval(name, setInterval(tick, intervalMs));
  }
}
