import { describe, expect, it } from '@jest/globals';
import { LaneBudget } from './lane-budget.ts';

const BACKLOG = { totalMs: 100, full: true };

describe('LaneBudget', () => {
  it('starts with the max', () => {
    expect(new LaneBudget(64).lanes).toBe(64);
  });

  it('shrinks to one lane while claims take much of the time', () => {
    const budget = new LaneBudget(64);
    const seen = Array.from({ length: 8 }, () => {
      budget.adapt({ ...BACKLOG, claimingMs: 40 });
      return budget.lanes;
    });
    expect(seen).toEqual([32, 16, 8, 4, 2, 1, 1, 1]);
  });

  it('grows up to the max when claims take little time', () => {
    const budget = new LaneBudget(24);
    for (let n = 0; n < 3; n++) budget.adapt({ ...BACKLOG, claimingMs: 40 });
    const seen = Array.from({ length: 4 }, () => {
      budget.adapt({ ...BACKLOG, claimingMs: 10 });
      return budget.lanes;
    });
    expect(seen).toEqual([6, 12, 24, 24]);
  });

  it('stays the same in between', () => {
    const budget = new LaneBudget(64);
    budget.adapt({ ...BACKLOG, claimingMs: 40 });
    for (let n = 0; n < 5; n++) budget.adapt({ ...BACKLOG, claimingMs: 30 });
    expect(budget.lanes).toBe(32);
  });

  it('grows, however long claims take, when a batch was not filled', () => {
    const budget = new LaneBudget(64);
    for (let n = 0; n < 6; n++) budget.adapt({ ...BACKLOG, claimingMs: 40 });
    budget.adapt({ claimingMs: 90, totalMs: 100, full: false });
    expect(budget.lanes).toBe(2);
  });
});
