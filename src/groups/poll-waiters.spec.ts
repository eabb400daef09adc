import { describe, expect, it } from '@jest/globals';
import { isTouchDue } from './poll-waiters.ts';

/** Whether a sign of life is due for a poll that began at 0 with a session of 30 s; in seconds. */
const due = (wait: number, seen: number, now: number) =>
  isTouchDue({ untilMs: wait * 1_000, sessionMs: 30_000, seen: { atMs: seen * 1_000 } }, now * 1_000);

describe('a poll that waits', () => {
  it('is no sign of life if it ends within half a session', () => {
    for (const now of [0, 5, 10, 15]) expect(due(15, 0, now)).toBe(false);
  });

  it('is one after each quarter of a session, up to half a session before its end', () => {
    expect([due(50, 0, 7), due(50, 0, 8), due(50, 8, 15), due(50, 8, 16)]).toEqual([
      false,
      true,
      false,
      true,
    ]);
    expect([due(50, 32, 34.9), due(50, 32, 35), due(50, 35, 36), due(50, 35, 50)]).toEqual([
      false,
      true,
      false,
      false,
    ]);
  });
});
