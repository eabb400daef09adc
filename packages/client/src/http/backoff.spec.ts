import { describe, expect, it } from '@jest/globals';
import { backoff, retryAfterOf } from './backoff.ts';

const LOW = () => 0;
const HIGH = () => 1;

describe('the wait before a retry', () => {
  it('doubles from 100 ms to 10 s, of which a random half is left out', () => {
    const waits = [0, 1, 2, 6, 7, 50].map((n) => [backoff(n, 0, LOW), backoff(n, 0, HIGH)]);
    expect(waits).toEqual([
      [50, 100],
      [100, 200],
      [200, 400],
      [3_200, 6_400],
      [5_000, 10_000],
      [5_000, 10_000],
    ]);
  });

  it('is not shorter than the service asks for, and not longer than about a minute', () => {
    expect([backoff(0, 2_000, LOW), backoff(0, 2_000, HIGH)]).toEqual([2_000, 2_400]);
    expect([backoff(0, 86_400_000, LOW), backoff(0, 86_400_000, HIGH)]).toEqual([60_000, 72_000]);
  });
});

describe('Retry-After', () => {
  it('is seconds or a date', () => {
    expect(retryAfterOf('3')).toBe(3_000);
    const now = Date.parse('2026-11-18T10:00:00Z');
    expect(retryAfterOf('Wed, 18 Nov 2026 10:00:05 GMT', now)).toBe(5_000);
    expect(retryAfterOf('Wed, 18 Nov 2026 09:00:00 GMT', now)).toBe(0);
  });

  it.each([undefined, null, '', 'soon'])('%p asks for nothing', (header) => {
    expect(retryAfterOf(header)).toBeUndefined();
  });
});
