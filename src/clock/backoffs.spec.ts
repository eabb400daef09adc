import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Backoffs } from './backoffs.ts';

let backoffs: Backoffs;
let rests: number[];

beforeEach(() => {
  jest.useFakeTimers();
  backoffs = new Backoffs();
  rests = [];
});
afterEach(() => {
  jest.useRealTimers();
});

describe('an item that failed', () => {
  it('backs off alone, the others do not', async () => {
    expect(await fails(1)).toBeUndefined();
    expect([backoffs.isBackingOff(1), backoffs.isBackingOff(2)]).toEqual([true, false]);
    jest.advanceTimersByTime(999);
    expect(backoffs.isBackingOff(1)).toBe(true);
    jest.advanceTimersByTime(1);
    expect(backoffs.isBackingOff(1)).toBe(false);
  });

  it('backs off longer each time, up to a minute', async () => {
    for (let time = 0; time < 8; time++) await fails(1);
    expect(rests).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  });

  it('starts over at the shortest back-off after a success, and returns its result', async () => {
    await fails(1);
    await fails(1);
    expect(await backoffs.attempt(1, async () => 'done', noted)).toBe('done');
    expect(backoffs.isBackingOff(1)).toBe(false);
    await fails(1);
    expect(rests).toEqual([1_000, 2_000, 1_000]);
  });

  it('does not back off because the database is unavailable', async () => {
    const away = new Error('Connection terminated');
    await expect(backoffs.attempt(1, () => Promise.reject(away), noted)).rejects.toBe(away);
    expect([backoffs.isBackingOff(1), rests]).toEqual([false, []]);
  });
});

function fails(id: number): Promise<unknown> {
  return backoffs.attempt(id, () => Promise.reject(new Error('no luck')), noted);
}

function noted(_error: unknown, retryInMs: number): void {
  rests.push(retryInMs);
}
