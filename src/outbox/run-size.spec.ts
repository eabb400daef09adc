import { describe, expect, it } from '@jest/globals';
import { firstRun, nextRun } from './run-size.ts';

describe('how many deliveries of a lane are claimed at a time', () => {
  it('is a quarter of the most at first, and all of it once its receiver is quick', () => {
    expect(firstRun(128)).toBe(32);
    expect(nextRun(32, 249, 128)).toBe(128);
    expect(nextRun(32, 250, 128)).toBe(32);
    expect(nextRun(128, 5_000, 128)).toBe(128);
  });

  it('stays one where only one at a time may be claimed, and never exceeds the most', () => {
    expect(nextRun(1, 0, 128)).toBe(1);
    // The least that OUTBOX_RUN may be.
    expect([firstRun(8), nextRun(1, 0, 8), nextRun(2, 0, 8)]).toEqual([2, 1, 8]);
  });
});
