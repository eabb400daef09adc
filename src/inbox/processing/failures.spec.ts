import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Defer, Refuse } from '../../contract/outcomes.ts';
import { ApplyFailed } from '../denormalizers/denormalizer-runner.ts';
import { decide, halves, separateFailed, split } from './failures.ts';

const SCHEDULE = [1_000, 5_000, 30_000];

describe('a message that failed', () => {
  it('A4 is retried by the schedule, then dead', () => {
    const kinds = [1, 2, 3, 4, 5].map((attempt) => decide(new Error('x'), attempt, SCHEDULE, 0));
    expect(kinds).toEqual([
      { kind: 'retry', afterMs: 1_000, error: 'Error: x' },
      { kind: 'retry', afterMs: 5_000, error: 'Error: x' },
      { kind: 'retry', afterMs: 30_000, error: 'Error: x' },
      { kind: 'dead', error: 'Error: x' },
      { kind: 'dead', error: 'Error: x' },
    ]);
    expect(decide(new Error('x'), 1, [])).toMatchObject({ kind: 'dead' });
  });

  it('is retried up to a fifth later, never earlier', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.integer({ min: 1, max: 3 }),
        (random, attempt) => {
          const failure = decide(new Error('x'), attempt, SCHEDULE, random);
          const afterMs = failure.kind === 'retry' ? failure.afterMs : Number.NaN;
          const planned = SCHEDULE[attempt - 1]!;
          expect(afterMs).toBeGreaterThanOrEqual(planned);
          expect(afterMs).toBeLessThanOrEqual(planned * 1.2);
        },
      ),
    );
  });

  it('A15 is retried at the requested time if deferred, after any number of attempts', () => {
    for (const attempt of [1, 4, 100])
      expect(decide(new Defer('30s', 'two checks still new'), attempt, SCHEDULE)).toEqual({
        kind: 'deferred',
        afterMs: 30_000,
        error: 'Defer: two checks still new',
      });
  });

  it('is dead at once when it refuses', () => {
    expect(decide(new Refuse('never'), 1, SCHEDULE)).toEqual({ kind: 'dead', error: 'Refuse: never' });
  });

  it('has one bounded error text that PostgreSQL can store, whatever was thrown', () => {
    fc.assert(
      fc.property(
        fc.anything({ withNullPrototype: true, withBigInt: true }),
        fc.string({ unit: 'binary' }),
        (thing, text) => {
          for (const thrown of [text, new Error(text), thing]) {
            const { error } = decide(thrown, 9, SCHEDULE);
            expect(error.length).toBeLessThanOrEqual(1_000);
            expect(error).not.toContain('\u0000');
          }
        },
      ),
    );
    expect(decide(new Error('x'.repeat(5_000)), 9, SCHEDULE).error).toHaveLength(1_000);
    for (const mute of [Object.create(null), { toString: 0n }, [{ toString: 0n }]])
      expect(decide(mute, 9, SCHEDULE).error).toBe(
        'something that cannot be shown as text was thrown (object)',
      );
  });

  it('counts an invalid delay as an error of the denormalizer', () => {
    expect(() => new Defer('soon', 'x')).toThrow('Defer: "soon" is not a duration such as "30s"');
  });
});

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
