import { isDatabaseAway } from '../database/errors.ts';
import { doubled } from './loop.ts';

const MIN_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;

/** Exponential back-off per item of a loop that works on several: one that fails waits longer each time, the others go on. */
export class Backoffs {
  private readonly failed = new Map<number, { times: number; untilMs: number }>();

  isBackingOff(id: number): boolean {
    return (this.failed.get(id)?.untilMs ?? 0) > performance.now();
  }

  /** Returns undefined if the work failed and is now backing off. An unavailable database concerns all items: it is thrown. */
  async attempt<Result>(
    id: number,
    work: () => Promise<Result>,
    onFailure: (error: unknown, retryInMs: number) => void,
  ): Promise<Result | undefined> {
    try {
      const result = await work();
      this.failed.delete(id);
      return result;
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      onFailure(error, this.add(id));
      return undefined;
    }
  }

  private add(id: number): number {
    const times = (this.failed.get(id)?.times ?? 0) + 1;
    const backoffMs = Math.min(MAX_BACKOFF_MS, doubled(MIN_BACKOFF_MS, times));
    this.failed.set(id, { times, untilMs: performance.now() + backoffMs });
    return backoffMs;
  }
}
