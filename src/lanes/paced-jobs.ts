import { Backoffs } from '../clock/backoffs.ts';
import type { Next } from '../clock/loop.ts';
import type { Wakeups } from './wakeups.ts';

/** A step that selects rows is followed by a pause as long as the step, so that half of the time is left to other work; at most this. */
const MAX_PAUSE_MS = 500;

/** A step changed rows of a lane, and the workers of its queue are woken. */
interface LaneChange {
  readonly kind: 'changed';
  readonly queue: string;
  readonly lane: number;
  readonly rows: number;
}

/** What a step did. `selected`: found further rows of its job. `full`: nothing, because it is at its in-flight limit. */
export type Step<Details = unknown> =
  | (LaneChange & Details)
  | { readonly kind: 'selected' | 'full' | 'done' };

interface PacedJobsOptions<Details> {
  readonly wakeups: Wakeups;
  readonly unfinished: () => Promise<readonly number[]>;
  /** A transaction of limited size; undefined if another replica is at work on the job. */
  readonly step: (job: number) => Promise<Step<Details> | undefined>;
  readonly onChanged: (step: LaneChange & Details) => void;
  readonly onFailed: (job: number, error: unknown, retryInMs: number) => void;
}

/** Jobs that change many rows of many lanes, such as a replay: in small steps, so that live traffic is not slowed down. */
export class PacedJobs<Details = unknown> {
  private readonly backoffs = new Backoffs();

  constructor(private readonly options: PacedJobsOptions<Details>) {}

  /** One step of each job. Neither one whose max is in flight, because its listener is down, nor one that fails blocks the others. */
  async pass(): Promise<Next> {
    const { unfinished, wakeups, onChanged } = this.options;
    const written = new Map<string, Set<number>>();
    const kinds = new Set<Step['kind']>();
    let selectingMs = 0;
    for (const job of await unfinished()) {
      if (this.backoffs.isBackingOff(job)) continue;
      const startedAtMs = performance.now();
      const step = await this.step(job);
      if (!step) continue;
      kinds.add(step.kind);
      if (step.kind === 'selected') selectingMs += performance.now() - startedAtMs;
      if (step.kind !== 'changed') continue;
      onChanged(step);
      written.set(step.queue, (written.get(step.queue) ?? new Set()).add(step.lane));
    }
    for (const [queue, lanes] of written) wakeups.announce(queue, lanes);
    if (kinds.has('changed')) return 'again';
    if (kinds.has('selected')) return { afterMs: Math.min(selectingMs, MAX_PAUSE_MS) };
    return kinds.has('full') ? 'soon' : 'idle';
  }

  private step(job: number): Promise<Step<Details> | undefined> {
    const { step, onFailed } = this.options;
    return this.backoffs.attempt(
      job,
      () => step(job),
      (error, retryInMs) => onFailed(job, error, retryInMs),
    );
  }
}
