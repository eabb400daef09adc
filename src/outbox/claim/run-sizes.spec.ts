import { beforeEach, describe, expect, it } from '@jest/globals';
import { RunSizes } from './run-sizes.ts';

const [QUICK, OTHER] = [1, 2];

describe('how many deliveries of a lane are claimed at a time', () => {
  let sizes: RunSizes;
  beforeEach(() => {
    sizes = new RunSizes({ outboxRun: 512 });
  });

  it('grows from few to the most while its receiver is quick', () => {
    expect(sizes.first(QUICK)).toBe(32);
    expect(sizes.next(QUICK, 32, 249)).toBe(128);
    expect(sizes.next(QUICK, 128, 249)).toBe(512);
    expect(sizes.next(QUICK, 512, 249)).toBe(512);
    expect(sizes.next(QUICK, 512, 1_999)).toBe(512);
    expect(sizes.next(OTHER, 32, 250)).toBe(32);
  });

  it('begins there with the next lane of a quick listener, and with few again when it is slow or breaks off', () => {
    sizes.next(QUICK, 32, 10);
    expect([sizes.first(QUICK), sizes.first(OTHER)]).toEqual([128, 32]);
    sizes.next(QUICK, 128, 2_000);
    expect(sizes.first(QUICK)).toBe(32);
    sizes.next(QUICK, 32, 10);
    sizes.forget(QUICK);
    expect(sizes.first(QUICK)).toBe(32);
  });

  it('stays one where only one at a time may be claimed, and never exceeds the most', () => {
    expect(sizes.next(QUICK, 1, 0)).toBe(1);
    // The least that OUTBOX_RUN may be.
    const least = new RunSizes({ outboxRun: 8 });
    expect([least.first(QUICK), least.next(QUICK, 1, 0), least.next(QUICK, 2, 0)]).toEqual([2, 1, 8]);
  });
});
