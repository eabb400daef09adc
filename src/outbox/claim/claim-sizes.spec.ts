import { beforeEach, describe, expect, it } from '@jest/globals';
import { fairShare, RunSizes } from './claim-sizes.ts';

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

const lanesOf = (listener: number, count = 16) => Array.from({ length: count }, (_, n) => listener * 256 + n);

describe('the share of a listener in the lanes of a replica', () => {
  it('is all of its lanes while enough are free', () => {
    const wanted = [...lanesOf(1), ...lanesOf(2), ...lanesOf(3)];
    expect(fairShare(wanted, 1_000, () => 0)).toEqual({ chosen: wanted, left: [] });
  });

  it('shrinks as fewer are free, so that some are left for the next listener', () => {
    const leased = new Map<number, number>();
    let free = 200;
    for (let listener = 1; listener <= 20; listener++) {
      const { chosen, left } = fairShare(lanesOf(listener), free, (one) => leased.get(one) ?? 0);
      expect(chosen.length).toBeGreaterThan(0);
      expect(chosen.length + left.length).toBe(16);
      leased.set(listener, chosen.length);
      free -= chosen.length;
    }
    expect(free).toBeGreaterThan(0);
  });

  it('counts the lanes that the listener already has leased', () => {
    expect(fairShare(lanesOf(1), 4, () => 1).chosen).toEqual([]);
    expect(fairShare(lanesOf(1), 4, () => 0).chosen).toHaveLength(1);
    expect(fairShare(lanesOf(1), 0, () => 0).chosen).toEqual([]);
  });
});
