import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { FlushDelay, MAX_MS, MIN_MS, type Pending } from './result-writer.ts';

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

/** Milliseconds until the delay is over. */
async function waited(delay: FlushDelay, pending: Pending, flushAtMs?: number): Promise<number> {
  let over = false;
  void delay
    .wait(() => pending)
    .then(() => {
      over = true;
    });
  for (let ms = 0; ; ms++) {
    if (ms === flushAtMs) delay.flushNow();
    await jest.advanceTimersByTimeAsync(0);
    if (over) return ms;
    await jest.advanceTimersByTimeAsync(1);
  }
}

it.each([
  ['the max for results that can wait', 'results', MAX_MS],
  ['the min when nothing is pending', 'nothing', MIN_MS],
  ['the min when something urgent is pending', 'urgent', MIN_MS],
] as const)('waits %s', async (_, pending, ms) => {
  expect(await waited(new FlushDelay(), pending)).toBe(ms);
});

it('ends when something urgent is added, each time it waits', async () => {
  const delay = new FlushDelay();
  expect(await waited(delay, 'results', MIN_MS + 3)).toBe(MIN_MS + 3);
  delay.flushNow();
  expect(await waited(delay, 'results')).toBe(MAX_MS);
  expect(await waited(delay, 'results', MIN_MS + 5)).toBe(MIN_MS + 5);
});
