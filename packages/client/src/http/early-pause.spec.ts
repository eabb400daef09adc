import { describe, expect, it } from '@jest/globals';
import { EarlyPause } from './early-pause.ts';

const EARLY = { isEmpty: true, tookMs: 1, waitMs: 20_000 };
const { signal } = new AbortController();

async function timeOf(step: () => Promise<void>): Promise<number> {
  const before = performance.now();
  await step();
  return performance.now() - before;
}

describe('long polls that end early', () => {
  it('are slowed down more and more while they return nothing', async () => {
    const early = new EarlyPause();
    await early.after(EARLY, signal);
    for (const atLeast of [19, 39, 79])
      expect(await timeOf(() => early.after(EARLY, signal))).toBeGreaterThan(atLeast);
  });

  it('are not slowed down after one that returned something, or that waited', async () => {
    for (const other of [
      { ...EARLY, isEmpty: false },
      { ...EARLY, tookMs: 20_000 },
      { ...EARLY, waitMs: 0 },
    ]) {
      const early = new EarlyPause() as unknown as { after: EarlyPause['after']; inARow: number };
      for (const reply of [EARLY, EARLY, other]) await early.after(reply, signal);
      expect(early.inARow).toBe(0);
    }
  });

  it('end their pause when they are stopped', async () => {
    const early = new EarlyPause();
    for (let n = 0; n < 30; n++) await early.after(EARLY, AbortSignal.abort());
  });
});
