import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { Gathering, LEAST_MS, MOST_MS } from './gathering.ts';

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

/** Milliseconds until it is over. */
async function waited(came: boolean, hurriedAtMs?: number): Promise<number> {
  const gathering = new Gathering();
  if (hurriedAtMs === -1) gathering.hurry();
  let over = false;
  void gathering
    .wait(() => !came)
    .then(() => {
      over = true;
    });
  for (let ms = 0; ; ms++) {
    if (ms === hurriedAtMs) gathering.hurry();
    await jest.advanceTimersByTimeAsync(0);
    if (over) return ms;
    await jest.advanceTimersByTimeAsync(1);
  }
}

it('waits its most for what comes one by one', async () => {
  expect(await waited(true)).toBe(MOST_MS);
});

it('waits its least where nothing came', async () => {
  expect(await waited(false)).toBe(LEAST_MS);
});

it.each([
  [-1, LEAST_MS],
  [1, LEAST_MS],
  [LEAST_MS + 3, LEAST_MS + 3],
])('goes on when somebody is in a hurry at %d ms, after %d', async (at, after) => {
  expect(await waited(true, at)).toBe(after);
});
