import { beforeEach, describe, expect, it } from '@jest/globals';
import { RunSizes } from './run-sizes.ts';

const [QUICK, OTHER] = [1, 2];

describe('how many deliveries of a lane are claimed at a time', () => {
  let sizes: RunSizes;
  beforeEach(() => {
    sizes = new RunSizes({ outboxRun: 512 });
  });

  it('grows from the first size to the max while its receiver is quick', () => {
    expect(sizes.first(QUICK)).toBe(32);
    expect(sizes.next(QUICK, 32, 249)).toBe(128);
    expect(sizes.next(QUICK, 128, 249)).toBe(512);
    expect(sizes.next(QUICK, 512, 249)).toBe(512);
    expect(sizes.next(QUICK, 512, 1_999)).toBe(512);
    expect(sizes.next(OTHER, 32, 250)).toBe(32);
  });

  it('applies to the next lane of a quick listener, and starts over when a run is slow or stops early', () => {
    sizes.next(QUICK, 32, 10);
    expect([sizes.first(QUICK), sizes.first(OTHER)]).toEqual([128, 32]);
    sizes.next(QUICK, 128, 2_000);
    expect(sizes.first(QUICK)).toBe(32);
    sizes.next(QUICK, 32, 10);
    sizes.forget(QUICK);
    expect(sizes.first(QUICK)).toBe(32);
  });

  it('stays 1 where only one at a time may be claimed, and never exceeds the max', () => {
    expect(sizes.next(QUICK, 1, 0)).toBe(1);
    // The minimum of OUTBOX_RUN.
    const smallest = new RunSizes({ outboxRun: 8 });
    expect([smallest.first(QUICK), smallest.next(QUICK, 1, 0), smallest.next(QUICK, 2, 0)]).toEqual([
      2, 1, 8,
    ]);
  });
});
