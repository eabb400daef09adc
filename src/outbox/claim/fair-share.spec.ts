import { describe, expect, it } from '@jest/globals';
import { fairShare } from './fair-share.ts';

const lanesOf = (listener: number, count = 16) => Array.from({ length: count }, (_, n) => listener * 256 + n);

describe('the share of a listener in the lanes of a replica', () => {
  it('is all of its lanes while enough are free', () => {
    const wanted = [...lanesOf(1), ...lanesOf(2), ...lanesOf(3)];
    expect(fairShare(wanted, 1_000, () => 0)).toEqual({ chosen: wanted, left: [] });
  });

  it('shrinks as fewer are free, so that some are left for the next listener', () => {
    const held = new Map<number, number>();
    let free = 200;
    for (let listener = 1; listener <= 20; listener++) {
      const { chosen, left } = fairShare(lanesOf(listener), free, (one) => held.get(one) ?? 0);
      expect(chosen.length).toBeGreaterThan(0);
      expect(chosen.length + left.length).toBe(16);
      held.set(listener, chosen.length);
      free -= chosen.length;
    }
    expect(free).toBeGreaterThan(0);
  });

  it('counts the lanes that the listener already holds', () => {
    expect(fairShare(lanesOf(1), 4, () => 1).chosen).toEqual([]);
    expect(fairShare(lanesOf(1), 4, () => 0).chosen).toHaveLength(1);
    expect(fairShare(lanesOf(1), 0, () => 0).chosen).toEqual([]);
  });
});
