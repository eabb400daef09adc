import { beforeEach, describe, expect, it } from '@jest/globals';
import { Missed } from './missed.ts';
import type { Tenure } from './tenure.ts';

describe('lanes that are looked at again when they are released', () => {
  let missed: Missed;
  beforeEach(() => {
    missed = new Missed();
  });

  const take = (lanes: number[], meanwhile: () => void = () => undefined) =>
    missed.taking(async () => {
      meanwhile();
      return { tenure: { lanes: new Set(lanes) } as Tenure };
    });

  it('are those that were written to while somebody had them, once', async () => {
    missed.written(1);
    await take([1, 2, 3]);
    missed.written(2);
    missed.written(4);
    expect(missed.released([1, 2])).toEqual([2]);
    await take([2]);
    expect(missed.released([2, 3, 4])).toEqual([]);
  });

  it('and those that were written to while somebody asked: the claim may have come before the write', async () => {
    await take([7], () => missed.written(7));
    expect(missed.released([7])).toEqual([7]);
    await expect(missed.taking(() => Promise.reject(new Error('away')))).rejects.toThrow('away');
    missed.written(7);
    await take([7]);
    expect(missed.released([7])).toEqual([]);
  });

  it('and all that are held or asked for when nobody knows where', async () => {
    await take([1]);
    await take([2], () => missed.writtenSomewhere());
    await take([3]);
    expect(missed.released([1, 2, 3])).toEqual([1, 2]);
  });
});
