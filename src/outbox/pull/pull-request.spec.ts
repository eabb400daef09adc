import { describe, expect, it } from '@jest/globals';
import type { HandedOutDelivery } from './hand-out-store.ts';
import { leaseText, parseLease } from './lease-token.ts';
import { share } from './pull-request.ts';

const rows = (...sizes: readonly number[]) =>
  sizes.map((bytes, n) => ({ position: n + 1, bytes }) as HandedOutDelivery);
const positions = (all: readonly HandedOutDelivery[]) => all.map(({ position }) => position);

describe('messages are shared among requests', () => {
  const shared = (sizes: readonly number[], limits: readonly [max: number, maxBytes: number][]) => {
    const { shares, left } = share(
      rows(...sizes),
      limits.map(([max, maxBytes]) => ({ max, maxBytes })),
    );
    return [shares.map(positions), positions(left)];
  };

  it('in order, the first request first', () => {
    expect(
      shared(
        [1, 1, 1, 1],
        [
          [2, 99],
          [1, 99],
          [5, 99],
        ],
      ),
    ).toEqual([[[1, 2], [3], [4]], []]);
  });

  it('within the bytes of each, but at least one, however large', () => {
    expect(
      shared(
        [50, 60, 10, 500],
        [
          [9, 100],
          [9, 100],
          [9, 1],
        ],
      ),
    ).toEqual([[[1, 3], [2], [4]], []]);
  });

  it('and what fits into none is left', () => {
    expect(shared([50, 60], [[9, 100]])).toEqual([[[1]], [2]]);
    expect(shared([1, 1], [])).toEqual([[], [1, 2]]);
  });
});

describe('a lease as text', () => {
  const ref = { lane: 257, position: 12, attempt: 3, token: '7b1e1e2e-0000-4000-8000-0123456789ab' };

  it('is read as it was written', () => {
    expect(parseLease(leaseText(ref))).toEqual(ref);
  });

  it.each([
    '',
    'x',
    `${leaseText(ref)} `,
    leaseText({ ...ref, lane: 2 ** 31 }),
    leaseText({ ...ref, attempt: 40_000 }),
    leaseText({ ...ref, position: -1 }),
    leaseText({ ...ref, position: 1e21 }),
    leaseText({ ...ref, token: ref.token.toUpperCase() }),
    leaseText(ref).replaceAll('.', '\u0000'),
  ])('is unknown in any other form: %j', (text) => {
    expect(parseLease(text)).toBeUndefined();
  });
});
