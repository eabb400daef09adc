import { describe, expect, it } from '@jest/globals';
import { laneOf } from './lane-of.ts';

/** Fixed values from another implementation. A change here loses the order of keys in every database. */
const FROZEN: readonly [key: string, of256: number, of16: number, hash: number][] = [
  ['', 11, 11, 2872998923],
  ['a', 179, 3, 444641715],
  ['b', 50, 2, 2193908274],
  ['0', 97, 1, 1693486945],
  ['key', 253, 13, 979252733],
  ['c-1', 153, 9, 2365411737],
  ['candidate-42', 158, 14, 1597226654],
  ['urn:ekp:candidates/0001', 123, 11, 2134648699],
  ['550e8400-e29b-41d4-a716-446655440000', 93, 13, 2531564893],
  ['a'.repeat(256), 238, 14, 1316181742],
  ['\u007f', 144, 0, 3904999568],
  ['\u0080', 181, 5, 1400953013],
  ['é', 199, 7, 2387039943],
  ['e\u0301', 253, 13, 3348083197],
  ['Zürich', 151, 7, 2908468631],
  ['日本語', 146, 2, 3932500114],
  ['😀', 10, 10, 855877642],
];

const TYPICAL: Record<string, (n: number) => string> = {
  'short ids': (n) => `c-${n}`,
  numbers: (n) => String(n),
  'padded numbers': (n) => String(n).padStart(8, '0'),
  urns: (n) => `urn:ekp:candidates/${n}`,
  addresses: (n) => `user${n}@example.com`,
  'hexadecimal ids': (n) => ((n * 2_654_435_761) >>> 0).toString(16),
  days: (n) => new Date(1_700_000_000_000 + n * 86_400_000).toISOString(),
  'names beyond ASCII': (n) => `Größe-${n}`,
};

describe('the lane of a key', () => {
  it.each(FROZEN)('never changes for %j', (key, of256, of16, hash) => {
    expect([laneOf(key, 256), laneOf(key, 16), laneOf(key, 4_294_967_295), laneOf(key, 1)]).toEqual([
      of256,
      of16,
      hash,
      0,
    ]);
  });

  it.each(Object.entries(TYPICAL))('spreads %s over 256 lanes as evenly as random numbers', (_, keyOf) => {
    const counts = new Array<number>(256).fill(0);
    const keys = 50_000;
    for (let n = 0; n < keys; n++) counts[laneOf(keyOf(n), 256)]! += 1;
    const even = keys / 256;
    const chiSquare = counts.reduce((sum, count) => sum + (count - even) ** 2 / even, 0);
    // Random numbers give 255 ± 23; more than 370 once in a hundred thousand.
    expect(chiSquare).toBeLessThan(370);
    expect(Math.max(...counts)).toBeLessThan(even * 1.4);
  });
});
