import { describe, expect, it } from '@jest/globals';
import { ConcurrencyWindow } from './admission.ts';

/** Enters as often as possible; returns how often. */
function fill(window: ConcurrencyWindow): number {
  let entered = 0;
  while (entered < 1_000 && window.tryEnter()) entered += 1;
  return entered;
}

describe('the window of calls to a listener', () => {
  it('has no limit of its own until the receiver reports overload', () => {
    expect(fill(new ConcurrencyWindow())).toBe(1_000);
  });

  it('never exceeds the max, however many calls succeed', () => {
    const window = new ConcurrencyWindow(5);
    expect(fill(window)).toBe(5);
    for (let n = 0; n < 5; n++) window.leave('succeeded', 5_000);
    expect(fill(window)).toBe(5);
  });

  it('halves the number in flight, once a second, however many responses report overload', () => {
    const window = new ConcurrencyWindow();
    for (let n = 0; n < 16; n++) window.tryEnter();
    for (let n = 0; n < 16; n++) window.leave('overloaded', 5_000 + n);
    expect(fill(window)).toBe(8);
    for (let n = 0; n < 8; n++) window.leave('overloaded', 6_001 + n);
    expect(fill(window)).toBe(4);
  });

  it('never shrinks below one', () => {
    const window = new ConcurrencyWindow();
    for (let second = 1; second < 10; second++) {
      expect(window.tryEnter()).toBe(true);
      window.leave('overloaded', second * 2_000);
    }
    expect(fill(window)).toBe(1);
  });

  it('grows by one for every full round of successful calls, and not by failed ones', () => {
    const window = new ConcurrencyWindow();
    for (let n = 0; n < 8; n++) window.tryEnter();
    for (let n = 0; n < 8; n++) window.leave('overloaded', 5_000);
    for (let round = 4; round < 10; round++) {
      expect(fill(window)).toBe(round);
      for (let n = 0; n < round; n++) window.leave('succeeded', 5_000);
      for (let n = 0; n < 3; n++) {
        window.tryEnter();
        window.leave('failed', 5_000);
      }
    }
  });

  it('admits waiting calls in order as soon as the window allows', async () => {
    const window = new ConcurrencyWindow();
    window.tryEnter();
    window.tryEnter();
    window.leave('overloaded', 5_000);
    const order: number[] = [];
    const waiting = [1, 2, 3].map(async (n) => {
      await window.enter();
      order.push(n);
    });
    await Promise.resolve();
    expect(order).toEqual([]);
    // The successful round makes the window 2: two may enter for one that leaves.
    window.leave('succeeded', 5_000);
    await Promise.all(waiting.slice(0, 2));
    expect(order).toEqual([1, 2]);
    window.leave('failed', 5_000);
    await Promise.all(waiting);
    expect(order).toEqual([1, 2, 3]);
  });
});
