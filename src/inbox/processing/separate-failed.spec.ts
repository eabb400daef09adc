import { describe, expect, it } from '@jest/globals';
import { halves, separateFailed } from './separate-failed.ts';

const [a1, b1, a2, c1, a3, b2] = ['a', 'b', 'a', 'c', 'a', 'b'].map((key, n) => ({ key, n }));
const ROWS = [a1!, b1!, a2!, c1!, a3!, b2!];

describe('a batch that failed', () => {
  it('is split into those that failed, each with what is behind it of its key, and the others', () => {
    expect(separateFailed(ROWS, [a2!, c1!])).toEqual({ others: [a1, b1, b2], alone: [[a2, a3], [c1]] });
  });

  it('has one part for a key of which several failed, in their order', () => {
    expect(separateFailed(ROWS, [b2!, b1!])).toEqual({ others: [a1, a2, c1, a3], alone: [[b1, b2]] });
  });

  it('is halved between keys, never within one', () => {
    expect(halves(ROWS)).toEqual([[a1, a2, a3, b1, b2], [c1]]);
    expect(halves([a1!, a2!])).toEqual([[a1, a2], []]);
  });
});
