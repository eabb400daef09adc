import { isDatabaseAway } from '../database/errors.ts';
import { doubled } from './loop.ts';

const MIN_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;

/** Exponential back-off per item of a loop that works on several: one that fails waits longer each time, the others continue. */
export class Backoffs {
  private readonly failed = new Map<number, { times: number; untilMs: number }>();

  constructor(private readonly maxMs = MAX_BACKOFF_MS) {}

  isBackingOff(id: number): boolean {
    return this.remainingMs(id) > 0;
  }

  remainingMs(id: number): number {
    return Math.max(0, (this.failed.get(id)?.untilMs ?? 0) - performance.now());
  }

  /** Returns undefined if the work failed and is now backing off. An unavailable database concerns all items: it is thrown. */
  async attempt<Result>(
    id: number,
    work: () => Promise<Result>,
    onFailure: (error: unknown, retryInMs: number) => void,
  ): Promise<Result | undefined> {
    try {
      const result = await work();
      this.succeed(id);
      return result;
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      onFailure(error, this.fail(id));
      return undefined;
    }
  }

  succeed(id: number): void {
    this.failed.delete(id);
  }

  /** Returns how long it waits now. */
  fail(id: number): number {
    const times = (this.failed.get(id)?.times ?? 0) + 1;
    const backoffMs = Math.min(this.maxMs, doubled(MIN_BACKOFF_MS, times));
    this.failed.set(id, { times, untilMs: performance.now() + backoffMs });
    return backoffMs;
  }
}
