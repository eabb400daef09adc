import { describe, expect, it } from '@jest/globals';
import { type Duration, milliseconds } from './duration.ts';

describe('a duration', () => {
  it.each<[Duration, number]>([
    [250, 250],
    ['0ms', 0],
    ['5ms', 5],
    ['1.5s', 1_500],
    ['2m', 120_000],
    ['1h', 3_600_000],
    ['7d', 604_800_000],
  ])('%s is %d ms', (duration, ms) => {
    expect(milliseconds(duration, 'linger')).toBe(ms);
  });

  it.each(['', '5', '5 s', '-1s', 's', '1w', -1, Number.NaN, Number.POSITIVE_INFINITY, null, {}])(
    'refuses %p and names the option',
    (bad) => {
      expect(() => milliseconds(bad as Duration, 'linger')).toThrow(/^linger must be a duration such as/);
    },
  );
});
