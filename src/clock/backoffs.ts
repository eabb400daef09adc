import { isDatabaseAway } from '../database/faults.ts';
import { doubled } from './loop.ts';

const MIN_REST_MS = 1_000;
const MAX_REST_MS = 60_000;

/** Which of several things a loop works at failed lately: each rests by itself, longer each time, and the others go on. */
export class Backoffs {
  private readonly known = new Map<number, { times: number; untilMs: number }>();

  isBackingOff(id: number): boolean {
    return (this.known.get(id)?.untilMs ?? 0) > performance.now();
  }

  /** Undefined: it failed, and rests. A database that is away is no setback of one of them: that is thrown. */
  async attempt<Result>(
    id: number,
    work: () => Promise<Result>,
    onSetback: (error: unknown, retryInMs: number) => void,
  ): Promise<Result | undefined> {
    try {
      const result = await work();
      this.known.delete(id);
      return result;
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      onSetback(error, this.add(id));
      return undefined;
    }
  }

  private add(id: number): number {
    const times = (this.known.get(id)?.times ?? 0) + 1;
    const restMs = Math.min(MAX_REST_MS, doubled(MIN_REST_MS, times));
    this.known.set(id, { times, untilMs: performance.now() + restMs });
    return restMs;
  }
}
