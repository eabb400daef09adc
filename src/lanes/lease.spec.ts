import { describe, expect, it } from '@jest/globals';
import { claimLimits, statsAfter } from './lease.ts';

describe('a claim', () => {
  it.each([
    ['evenly, before anything is known', 8, undefined, 64],
    ['all of it to a lane that is alone', 1, 1, 512],
    ['among those that were busy', 64, 32, 16],
    ['a sixteenth of it at most, however few were busy', 64, 1, 32],
    ['never less than a row', 600, undefined, 1],
  ])('is shared %s', (_how, lanes, busyLanes, perLane) => {
    const outlook = busyLanes === undefined ? undefined : { busyLanes, parking: false, more: true };
    expect(claimLimits({ maxRows: 512 }, lanes, outlook)).toEqual({ maxRows: 512, perLane, window: perLane });
  });

  it('gives no lane more than was said, however few there are', () => {
    expect(claimLimits({ maxRows: 512, maxPerLane: 32 }, 1).perLane).toBe(32);
  });

  it.each([
    ['no lanes', 8, undefined, 0],
    ['lanes that are not a number', 8, undefined, Number.NaN],
    ['part of a lane', 8, undefined, 1.5],
    ['fewer lanes than none', 8, undefined, -1],
    ['no rows', 0, undefined, 1],
    ['rows that are not a number', Number.NaN, undefined, 1],
    ['rows without end', Number.POSITIVE_INFINITY, undefined, 1],
    ['fewer rows than none', -8, undefined, 1],
    ['part of a row per lane', 8, 0.5, 1],
    ['rows per lane that are not a number', 8, Number.NaN, 1],
  ])('is refused for %s', (_what, maxRows, maxPerLane, lanes) => {
    expect(() => claimLimits({ maxRows, maxPerLane }, lanes)).toThrow(RangeError);
  });

  it('looks further while it meets rows that it must park', () => {
    const parking = { busyLanes: 1, parking: true, more: true };
    expect(claimLimits({ maxRows: 8 }, 1, parking)).toMatchObject({ perLane: 8, window: 500 });
    expect(claimLimits({ maxRows: 2_000 }, 1, parking)).toMatchObject({ perLane: 2_000, window: 2_000 });
  });

  it.each([
    ['lanes gave less than their share', { 7: 3, 8: 2 }, { busyLanes: 1, more: false }],
    ['one gave all of it', { 7: 4, 8: 2 }, { busyLanes: 1, more: true }],
    ['both did', { 7: 4, 8: 4 }, { busyLanes: 2, more: true }],
  ])('tells the next one: %s', (_what, counts, outlook) => {
    const share = claimLimits({ maxRows: 8 }, 2);
    expect(statsAfter(share, 2, { rows: rowsOf(counts), parked: 0 })).toEqual({
      ...outlook,
      parking: false,
    });
  });

  it('leaves more behind when it is full, although no lane gave all that it might have', () => {
    const share = claimLimits({ maxRows: 64 }, 32, { busyLanes: 1, parking: false, more: true });
    expect(share.perLane).toBe(4);
    const rows = rowsOf(Object.fromEntries(Array.from({ length: 32 }, (_, lane) => [lane, 2])));
    expect(statsAfter(share, 32, { rows, parked: 0 })).toEqual({
      busyLanes: 32,
      parking: false,
      more: true,
    });
  });

  it('leaves more behind when it had to park', () => {
    const share = claimLimits({ maxRows: 8 }, 1);
    expect(statsAfter(share, 1, { rows: [], parked: 3 })).toEqual({
      busyLanes: 1,
      parking: true,
      more: true,
    });
  });

  it('finds lanes busy that gave what was asked of more of them than were to be had', () => {
    const share = claimLimits({ maxRows: 64 }, 16);
    expect(statsAfter(share, 2, { rows: rowsOf({ 1: 4, 2: 4 }), parked: 0 }).busyLanes).toBe(2);
  });
});

function rowsOf(counts: Record<number, number>): { lane: number }[] {
  return Object.entries(counts).flatMap(([lane, n]) =>
    Array.from({ length: n }, () => ({ lane: Number(lane) })),
  );
}
