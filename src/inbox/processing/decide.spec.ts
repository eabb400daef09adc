import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Defer, Refuse } from '../../contract/outcomes.ts';
import { decide } from './decide.ts';

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
