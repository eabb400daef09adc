import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { type Gathered, Gathering, LEAST_MS, MOST_MS } from './gathering.ts';

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

/** Milliseconds until it is over. */
async function waited(gathering: Gathering, came: Gathered, hurriedAtMs?: number): Promise<number> {
  let over = false;
  void gathering
    .wait(() => came)
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

it.each([
  ['its most for what is in no hurry', 'something', MOST_MS],
  ['its least where nothing came', 'nothing', LEAST_MS],
  ['its least for what is urgent', 'urgent', LEAST_MS],
] as const)('waits %s', async (_, came, ms) => {
  expect(await waited(new Gathering(), came)).toBe(ms);
});

it('goes on when something urgent comes, each time anew', async () => {
  const gathering = new Gathering();
  expect(await waited(gathering, 'something', LEAST_MS + 3)).toBe(LEAST_MS + 3);
  gathering.hurry();
  expect(await waited(gathering, 'something')).toBe(MOST_MS);
  expect(await waited(gathering, 'something', LEAST_MS + 5)).toBe(LEAST_MS + 5);
});
