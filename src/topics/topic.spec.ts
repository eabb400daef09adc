import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { laneOf } from '../lanes/lane-of.ts';
import { partitionOf } from './topic.ts';

const INBOX_LANES = 256;
const KEYS = 50_000;

/** The biggest share of a partition, as a multiple of an even one. */
function skewOf(partitions: number, lanes: readonly number[]): number {
  const sizes = new Array<number>(partitions).fill(0);
  for (const lane of lanes) sizes[partitionOf(lane, { partitions })]! += 1;
  return Math.max(...sizes) / (lanes.length / partitions);
}

const lanesOf = (keyOf: (n: number) => string) =>
  Array.from({ length: KEYS }, (_, n) => laneOf(keyOf(n), INBOX_LANES));

const hexOf = (n: number) => createHash('sha256').update(String(n)).digest('hex');
const KINDS: [kind: string, keyOf: (n: number) => string][] = [
  ['numbers', (n) => String(n)],
  ['numbered names', (n) => `customer-${n}`],
  ['padded numbers', (n) => String(n).padStart(12, '0')],
  ['e-mail addresses', (n) => `user.${n}@example.com`],
  // A message without a key has its id as key: a UUID, unless the producer chose another.
  ['UUIDs', (n) => hexOf(n).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')],
];

describe('the partition of a key', () => {
  it.each(KINDS)('B3: spreads %s evenly over partitions', (_kind, keyOf) => {
    const lanes = lanesOf(keyOf);
    expect(skewOf(4, lanes)).toBeLessThan(1.03);
    expect(skewOf(16, lanes)).toBeLessThan(1.06);
    expect(skewOf(256, lanes)).toBeLessThan(1.3);
  });

  it('B3: is less even for numbers that do not divide the lanes, up to twice an even share', () => {
    const lanes = lanesOf(KINDS[1]![1]);
    expect(skewOf(12, lanes)).toBeLessThan(1.1);
    expect(skewOf(100, lanes)).toBeLessThan(1.35);
    expect(skewOf(255, lanes)).toBeGreaterThan(1.8);
  });
});
