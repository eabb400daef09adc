import { describe, expect, it } from '@jest/globals';
import { claimLimits, statsAfter } from './lane-claims.ts';

describe('a claim', () => {
  it.each([
    ['evenly at first', 8, undefined, 64],
    ['all of it to a single lane', 1, 1, 512],
    ['among the busy lanes', 64, 32, 16],
    ['a sixteenth at most, even if few were busy', 64, 1, 32],
    ['at least one row', 600, undefined, 1],
  ])('is shared %s', (_how, lanes, busyLanes, perLane) => {
    const outlook = busyLanes === undefined ? undefined : { busyLanes, parking: false, more: true };
    expect(claimLimits({ maxRows: 512 }, lanes, outlook)).toEqual({ maxRows: 512, perLane, window: perLane });
  });

  it('gives no lane more than the limit, even if there are few', () => {
    expect(claimLimits({ maxRows: 512, maxPerLane: 32 }, 1).perLane).toBe(32);
  });

  it.each([
    ['no lanes', 8, undefined, 0],
    ['lanes that are not a number', 8, undefined, Number.NaN],
    ['a fraction of a lane', 8, undefined, 1.5],
    ['a negative number of lanes', 8, undefined, -1],
    ['no rows', 0, undefined, 1],
    ['rows that are not a number', Number.NaN, undefined, 1],
    ['infinite rows', Number.POSITIVE_INFINITY, undefined, 1],
    ['a negative number of rows', -8, undefined, 1],
    ['a fraction of a row per lane', 8, 0.5, 1],
    ['rows per lane that are not a number', 8, Number.NaN, 1],
  ])('is refused for %s', (_what, maxRows, maxPerLane, lanes) => {
    expect(() => claimLimits({ maxRows, maxPerLane }, lanes)).toThrow(RangeError);
  });

  it('continues while it finds rows that it must park', () => {
    const parking = { busyLanes: 1, parking: true, more: true };
    expect(claimLimits({ maxRows: 8 }, 1, parking)).toMatchObject({ perLane: 8, window: 500 });
    expect(claimLimits({ maxRows: 2_000 }, 1, parking)).toMatchObject({ perLane: 2_000, window: 2_000 });
  });

  it.each([
    ['lanes returned less than their share', { 7: 3, 8: 2 }, { busyLanes: 1, more: false }],
    ['one returned all of it', { 7: 4, 8: 2 }, { busyLanes: 1, more: true }],
    ['both did', { 7: 4, 8: 4 }, { busyLanes: 2, more: true }],
  ])('determines the next one: %s', (_what, counts, outlook) => {
    const share = claimLimits({ maxRows: 8 }, 2);
    expect(statsAfter(share, 2, { rows: rowsOf(counts), parked: 0 })).toEqual({
      ...outlook,
      parking: false,
    });
  });

  it('reports more rows when it is full, although no lane returned its limit', () => {
    const share = claimLimits({ maxRows: 64 }, 32, { busyLanes: 1, parking: false, more: true });
    expect(share.perLane).toBe(4);
    const rows = rowsOf(Object.fromEntries(Array.from({ length: 32 }, (_, lane) => [lane, 2])));
    expect(statsAfter(share, 32, { rows, parked: 0 })).toEqual({
      busyLanes: 32,
      parking: false,
      more: true,
    });
  });

  it('reports more rows when it had to park', () => {
    const share = claimLimits({ maxRows: 8 }, 1);
    expect(statsAfter(share, 1, { rows: [], parked: 3 })).toEqual({
      busyLanes: 1,
      parking: true,
      more: true,
    });
  });

  it('marks lanes as busy that returned the share of more lanes than there were', () => {
    const share = claimLimits({ maxRows: 64 }, 16);
    expect(statsAfter(share, 2, { rows: rowsOf({ 1: 4, 2: 4 }), parked: 0 }).busyLanes).toBe(2);
  });
});

function rowsOf(counts: Record<number, number>): { lane: number }[] {
  return Object.entries(counts).flatMap(([lane, n]) =>
    Array.from({ length: n }, () => ({ lane: Number(lane) })),
  );
}
