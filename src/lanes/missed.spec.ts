import { beforeEach, describe, expect, it } from '@jest/globals';
import { Missed } from './missed.ts';

describe('lanes that are looked at again when they are released', () => {
  let missed: Missed;
  beforeEach(() => {
    missed = new Missed();
  });

  it('are those that were written to while somebody had them, once', () => {
    missed.written(1);
    missed.taken([1, 2, 3]);
    missed.written(2);
    missed.written(4);
    expect(missed.released([1, 2])).toEqual([2]);
    missed.taken([2]);
    expect(missed.released([2, 3, 4])).toEqual([]);
  });

  it('and those that were written to while somebody asked: the claim may have come before the write', async () => {
    await missed.whileAsking(async () => missed.written(7));
    missed.taken([7]);
    expect(missed.released([7])).toEqual([7]);
    const failed = missed.whileAsking(() => Promise.reject(new Error('away')));
    await expect(failed).rejects.toThrow('away');
    missed.written(7);
    missed.taken([7]);
    expect(missed.released([7])).toEqual([]);
  });
});
