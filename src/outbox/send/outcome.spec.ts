import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { CallResult, FailureReason } from '../../webhooks/call-result.ts';
import { parseRetryAfter } from '../../webhooks/retry-after.ts';
import { MAX_PAUSED_MS, type Outcome, outcomeOf } from './outcome.ts';

const HOUR = 3_600_000;
const LISTENER = { retryScheduleMs: [5_000, 300_000], terminalStatuses: [400, 403] };
const FIRST = { attempt: 1, ageMs: 0 };
const never = () => 0;

describe('a response', () => {
  it.each([200, 201, 202, 204, 226, 299])('of %i is a delivery', (status) => {
    expect(outcomeOf(responded(status), LISTENER, FIRST)).toEqual({ kind: 'delivered' });
  });

  it.each([300, 301, 302, 303, 304, 307, 308, 401, 404, 408, 418, 429, 500, 501, 502, 503, 504, 599])(
    'of %i is a failed attempt: retried by the schedule, then dead (E5)',
    (status) => {
      const overloaded = [429, 502, 504].includes(status);
      const reason = `responded ${status}`;
      const outcomes = [1, 2, 3].map((attempt) =>
        outcomeOf(responded(status), LISTENER, { attempt, ageMs: 0 }, never),
      );
      expect(outcomes).toEqual([
        { kind: 'retry', afterMs: 5_000, counted: true, overloaded, reason },
        { kind: 'retry', afterMs: 300_000, counted: true, overloaded, reason },
        { kind: 'dead', overloaded, reason },
      ]);
    },
  );

  it('of a terminal status is dead at once (E5)', () => {
    for (const status of [400, 403]) {
      expect(outcomeOf(responded(status), LISTENER, FIRST)).toEqual({
        kind: 'dead',
        overloaded: false,
        reason: `responded ${status}`,
      });
    }
    const strict = { ...LISTENER, terminalStatuses: [429, 302] };
    expect(outcomeOf(responded(429, 1_000), strict, FIRST).kind).toBe('dead');
    expect(outcomeOf(responded(302), strict, FIRST).kind).toBe('dead');
  });

  it('of 410 is dead and disables the listener, terminal or not', () => {
    for (const terminalStatuses of [[], [410]]) {
      expect(outcomeOf(responded(410), { ...LISTENER, terminalStatuses }, FIRST)).toEqual({
        kind: 'dead',
        overloaded: false,
        reason: 'responded 410',
        disable: true,
      });
    }
  });

  it.each([429, 503])(
    'of %i with Retry-After pauses the listener and is not counted, up to 75 hours',
    (status) => {
      const overloaded = status === 429;
      const reason = `responded ${status}`;
      const asked = responded(status, 90_000);
      for (const attempt of [1, 2, 3, 50]) {
        expect(outcomeOf(asked, LISTENER, { attempt, ageMs: 75 * HOUR - 1 })).toEqual({
          kind: 'pause',
          afterMs: 90_000,
          overloaded,
          reason,
        });
      }
      const old = { ageMs: 75 * HOUR };
      expect(outcomeOf(asked, LISTENER, { attempt: 1, ...old }, never)).toEqual({
        kind: 'retry',
        afterMs: 90_000,
        counted: true,
        overloaded,
        reason,
      });
      expect(outcomeOf(asked, LISTENER, { attempt: 3, ...old }).kind).toBe('dead');
    },
  );

  it('that requests a pause of 0 gets one of a second', () => {
    expect(outcomeOf(responded(503, 0), LISTENER, FIRST)).toMatchObject({ kind: 'pause', afterMs: 1_000 });
  });

  it.each([200, 301, 404, 500, 502])('of %i means the same, with any Retry-After', (status) => {
    const tries = { attempt: 1, ageMs: 0 };
    expect(outcomeOf(responded(status, 90_000), LISTENER, tries, never)).toEqual(
      outcomeOf(responded(status), LISTENER, tries, never),
    );
  });
});

describe('a failed call', () => {
  it.each<FailureReason>(['timeout', 'dns', 'refused', 'reset', 'tls', 'egress', 'protocol'])(
    'with the reason %s is a failed attempt: retried by the schedule, then dead',
    (fault) => {
      const kinds = [1, 2, 3].map((attempt) =>
        outcomeOf(failed(fault), LISTENER, { attempt, ageMs: 0 }, never),
      );
      expect(kinds).toEqual([
        { kind: 'retry', afterMs: 5_000, counted: true, overloaded: false, reason: `${fault}: why` },
        { kind: 'retry', afterMs: 300_000, counted: true, overloaded: false, reason: `${fault}: why` },
        { kind: 'dead', overloaded: false, reason: `${fault}: why` },
      ]);
    },
  );

  it('with a local reason is never counted, however old the delivery, and retried soon', () => {
    const local = (ageMs: number, attempt = 1) =>
      outcomeOf(failed('local'), { ...LISTENER, retryScheduleMs: [] }, { attempt, ageMs }, never);
    const free = { kind: 'retry', counted: false, overloaded: false, reason: 'local: why' };
    expect(local(0)).toEqual({ ...free, afterMs: 1_000 });
    expect(local(60_000, 9)).toEqual({ ...free, afterMs: 6_000 });
    expect(local(MAX_PAUSED_MS - 1)).toEqual({ ...free, afterMs: 300_000 });
    expect(local(2 * MAX_PAUSED_MS, 9)).toEqual({ ...free, afterMs: 600_000 });
  });

  it('without a connection to the broker is not counted, and retried within 15 s, for 75 hours', () => {
    const unsent: CallResult = {
      kind: 'failed',
      reason: 'refused',
      detail: 'why',
      durationMs: 1,
      unsent: true,
    };
    const outcomeAt = (ageMs: number) => outcomeOf(unsent, LISTENER, { attempt: 1, ageMs }, never);
    const free = { kind: 'retry', counted: false, overloaded: false, reason: 'refused: why' };
    expect(outcomeAt(0)).toEqual({ ...free, afterMs: 1_000 });
    expect(outcomeAt(MAX_PAUSED_MS - 1)).toEqual({ ...free, afterMs: 15_000 });
    expect(outcomeAt(MAX_PAUSED_MS)).toEqual({ ...free, counted: true, afterMs: 5_000 });
  });

  it('with a local reason that lasts takes about four thousand attempts in 90 days, not a hundred thousand', () => {
    let [ageMs, attempts] = [0, 0];
    while (ageMs < 90 * 24 * HOUR) {
      const outcome = outcomeOf(failed('local'), LISTENER, { attempt: 1, ageMs }, never);
      ageMs += (outcome as Extract<Outcome, { kind: 'retry' }>).afterMs;
      attempts += 1;
    }
    expect(attempts).toBeLessThan(4_100);
  });
});

describe('the wait before the next attempt', () => {
  it('is the scheduled one, 0 to 20 % longer, in whole milliseconds', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 86_400_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (ms, random) => {
          const outcome = outcomeOf(
            responded(500),
            { ...LISTENER, retryScheduleMs: [ms] },
            FIRST,
            () => random,
          );
          const { afterMs } = outcome as Extract<Outcome, { kind: 'retry' }>;
          expect(Number.isInteger(afterMs)).toBe(true);
          expect(afterMs).toBeGreaterThanOrEqual(ms);
          expect(afterMs).toBeLessThanOrEqual(Math.ceil(ms * 1.2));
        },
      ),
    );
  });

  it('differs between deliveries that failed together', () => {
    const waits = Array.from({ length: 20 }, () => outcomeOf(responded(500), LISTENER, FIRST));
    expect(new Set(waits.map((outcome) => JSON.stringify(outcome))).size).toBeGreaterThan(10);
  });
});

describe('Retry-After', () => {
  const NOW = Date.UTC(2025, 10, 16, 3, 0, 0);
  it.each([
    ['120', 120_000],
    ['0', 0],
    ['1.5', 1_500],
    [' 7 ', 7_000],
    ['-5', 0],
    ['999999999', 24 * HOUR],
    ['Sun, 16 Nov 2025 03:01:00 GMT', 60_000],
    ['Sunday, 16-Nov-25 03:01:00 GMT', 60_000],
    ['Sun Nov 16 03:01:00 2025', 60_000],
    ['Sat Nov  1 03:01:00 2025', 0],
    ['Sun, 16 Nov 2025 02:00:00 GMT', 0],
    ['Sun, 16 Nov 2031 03:00:00 GMT', 24 * HOUR],
  ])('%j is read', (text, ms) => {
    expect(parseRetryAfter(text, undefined, NOW)).toBe(ms);
  });

  it.each(['', 'soon', 'retry 5', '5 minutes', '1e3', '0x10', 'NaN', 'Infinity', '2025-11-16', '5s', '1,2'])(
    '%j is ignored',
    (text) => {
      expect(parseRetryAfter(text, undefined, NOW)).toBeUndefined();
    },
  );

  it('may be a date, by the clock of the receiver', () => {
    const [late, date] = ['Sun, 16 Nov 2025 09:01:00 GMT', 'Sun, 16 Nov 2025 09:00:00 GMT'];
    expect(parseRetryAfter(late, date, NOW)).toBe(60_000);
    expect(parseRetryAfter(late, 'yesterday', NOW)).toBe(6 * HOUR + 60_000);
    expect(parseRetryAfter('10', date, NOW)).toBe(10_000);
  });

  it('may be missing', () => {
    expect(parseRetryAfter(undefined, undefined)).toBeUndefined();
  });
});

function responded(status: number, retryAfterMs?: number): CallResult {
  const result = { kind: 'responded', status, excerpt: '', durationMs: 1 } as const;
  return retryAfterMs === undefined ? result : { ...result, retryAfterMs };
}

function failed(reason: FailureReason): CallResult {
  return { kind: 'failed', reason, detail: 'why', durationMs: 1 };
}
