import { describe, expect, it } from '@jest/globals';
import { fairShare } from './fair-share.ts';

const lanesOf = (listener: number, count = 16) => Array.from({ length: count }, (_, n) => listener * 256 + n);

describe('the share of a listener in the lanes of a replica', () => {
  it('is all it has while there is room enough', () => {
    const wanted = [...lanesOf(1), ...lanesOf(2), ...lanesOf(3)];
    expect(fairShare(wanted, 1_000, () => 0)).toEqual({ chosen: wanted, left: [] });
  });

  it('gets smaller as room gets scarce, so that there is some for the next one', () => {
    const held = new Map<number, number>();
    let room = 200;
    for (let listener = 1; listener <= 20; listener++) {
      const { chosen, left } = fairShare(lanesOf(listener), room, (one) => held.get(one) ?? 0);
      expect(chosen.length).toBeGreaterThan(0);
      expect(chosen.length + left.length).toBe(16);
      held.set(listener, chosen.length);
      room -= chosen.length;
    }
    expect(room).toBeGreaterThan(0);
  });

  it('counts what the listener holds already', () => {
    expect(fairShare(lanesOf(1), 4, () => 1).chosen).toEqual([]);
    expect(fairShare(lanesOf(1), 4, () => 0).chosen).toHaveLength(1);
    expect(fairShare(lanesOf(1), 0, () => 0).chosen).toEqual([]);
  });
});
