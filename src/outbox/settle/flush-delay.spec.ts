import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { FlushDelay, MAX_MS, MIN_MS, type Urgency } from './flush-delay.ts';

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

/** Milliseconds until it is over. */
async function waited(gathering: FlushDelay, came: Urgency, hurriedAtMs?: number): Promise<number> {
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
  ['its most for what is in no hurry', 'something', MAX_MS],
  ['its least where nothing came', 'nothing', MIN_MS],
  ['its least for what is urgent', 'urgent', MIN_MS],
] as const)('waits %s', async (_, came, ms) => {
  expect(await waited(new FlushDelay(), came)).toBe(ms);
});

it('goes on when something urgent comes, each time anew', async () => {
  const gathering = new FlushDelay();
  expect(await waited(gathering, 'something', MIN_MS + 3)).toBe(MIN_MS + 3);
  gathering.hurry();
  expect(await waited(gathering, 'something')).toBe(MAX_MS);
  expect(await waited(gathering, 'something', MIN_MS + 5)).toBe(MIN_MS + 5);
});
