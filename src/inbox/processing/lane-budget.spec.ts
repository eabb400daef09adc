import { describe, expect, it } from '@jest/globals';
import { LaneBudget } from './lane-budget.ts';

const BACKLOG = { totalMs: 100, full: true };

describe('Breadth', () => {
  it('begins with as many lanes as it may', () => {
    expect(new LaneBudget(64).lanes).toBe(64);
  });

  it('takes fewer lanes while asking takes much of the time, down to one', () => {
    const breadth = new LaneBudget(64);
    const seen = Array.from({ length: 8 }, () => {
      breadth.adapt({ ...BACKLOG, askingMs: 40 });
      return breadth.lanes;
    });
    expect(seen).toEqual([32, 16, 8, 4, 2, 1, 1, 1]);
  });

  it('takes more again when asking takes little, up to as many as it may', () => {
    const breadth = new LaneBudget(24);
    for (let n = 0; n < 3; n++) breadth.adapt({ ...BACKLOG, askingMs: 40 });
    const seen = Array.from({ length: 4 }, () => {
      breadth.adapt({ ...BACKLOG, askingMs: 10 });
      return breadth.lanes;
    });
    expect(seen).toEqual([6, 12, 24, 24]);
  });

  it('stays where asking takes neither much nor little', () => {
    const breadth = new LaneBudget(64);
    breadth.adapt({ ...BACKLOG, askingMs: 40 });
    for (let n = 0; n < 5; n++) breadth.adapt({ ...BACKLOG, askingMs: 30 });
    expect(breadth.lanes).toBe(32);
  });

  it('takes more lanes whatever asking takes when they did not fill a batch', () => {
    const breadth = new LaneBudget(64);
    for (let n = 0; n < 6; n++) breadth.adapt({ ...BACKLOG, askingMs: 40 });
    breadth.adapt({ askingMs: 90, totalMs: 100, full: false });
    expect(breadth.lanes).toBe(2);
  });
});
