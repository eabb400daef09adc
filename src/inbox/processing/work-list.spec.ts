import { describe, expect, it } from '@jest/globals';
import { ApplyFailed } from '../denormalizers/denormalizer-runner.ts';
import { halves, separateFailed, split } from './work-list.ts';

const [a1, b1, a2, c1, a3, b2] = ['a', 'b', 'a', 'c', 'a', 'b'].map((key, n) => ({ key, n }));
const ROWS = [a1!, b1!, a2!, c1!, a3!, b2!];

describe('a batch that failed', () => {
  it('is split into the failed messages, each with the later ones of its key, and the others', () => {
    expect(separateFailed(ROWS, [a2!, c1!])).toEqual({ others: [a1, b1, b2], alone: [[a2, a3], [c1]] });
  });

  it('has one part for a key of which several failed, in their order', () => {
    expect(separateFailed(ROWS, [b2!, b1!])).toEqual({ others: [a1, a2, c1, a3], alone: [[b1, b2]] });
  });

  it('is halved between keys, never within one', () => {
    expect(halves(ROWS)).toEqual([[a1, a2, a3, b1, b2], [c1]]);
    expect(halves([a1!, a2!])).toEqual([[a1, a2], []]);
  });

  it('is retried first without the failed messages, then with each failed one alone', () => {
    const failure = new ApplyFailed([], 'why');
    const [others, a, c] = split(ROWS, 0, failure, [a2!, c1!]);
    expect(others).toEqual({ rows: [a1, b1, b2], behind: [], failures: 1 });
    expect(a).toMatchObject({
      rows: [a2],
      behind: [a3],
      failures: 0,
      failedBatch: { failure, hangs: false },
    });
    expect(c).toMatchObject({ rows: [c1], behind: [] });
    expect(c!.failedBatch).toBe(a!.failedBatch);
  });

  it('is halved from the second failure on', () => {
    const items = split(ROWS, 1, new ApplyFailed([], 'why'), [c1!]);
    expect(items.map(({ rows, failures }) => [rows, failures])).toEqual([
      [[a1, a2, a3], 2],
      [[b1, b2], 2],
      [[c1], 0],
    ]);
  });

  it('is retried one by one, key after key, if it is not known which messages failed', () => {
    expect(split(ROWS, 1, new ApplyFailed([], 'why'), [])).toEqual([
      { rows: [a1], behind: [a2, a3], failures: 0 },
      { rows: [b1], behind: [b2], failures: 0 },
      { rows: [c1], behind: [], failures: 0 },
    ]);
  });
});
