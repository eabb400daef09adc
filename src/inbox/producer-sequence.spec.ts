import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  fromMultirange,
  judge,
  MAX_GAPS,
  NEW_PRODUCER,
  type ProducerState,
  type Range,
  toMultirange,
  type Verdict,
} from './producer-sequence.ts';

/** B4 in a simple way: all received numbers, and all that were reported missing. */
class Model {
  private readonly came = new Set<number>();
  private readonly missing = new Set<number>();
  private last = -1;

  take(sequence: number): Verdict {
    if (this.came.has(sequence)) return { kind: 'seen' };
    this.came.add(sequence);
    if (this.missing.delete(sequence)) return { kind: 'filler' };
    const gap: Range = { from: Math.max(this.last + 1, 1), to: sequence - 1 };
    for (let n = this.last + 1; n < sequence; n++) this.missing.add(n);
    this.last = sequence;
    return gap.from > gap.to ? { kind: 'next' } : { kind: 'jump', gap };
  }

  get state(): { last: number; missing: number[] } {
    return { last: this.last, missing: [...this.missing].sort((a, b) => a - b) };
  }
}

describe('B4 the numbers of a producer', () => {
  it('are handled as if every one of them were remembered', () => {
    const numbers = fc.array(fc.oneof(fc.nat({ max: 12 }), fc.nat({ max: 80 })), { maxLength: 80 });
    fc.assert(
      fc.property(numbers, (sequences) => {
        const model = new Model();
        let state: ProducerState = NEW_PRODUCER;
        const verdicts = sequences.map((sequence) => {
          const [verdict, next] = judge(state, sequence);
          // As between two posts: stored in the database.
          state = { last: next.last, missing: fromMultirange(toMultirange(next.missing)) };
          return verdict;
        });
        expect(verdicts).toEqual(sequences.map((sequence) => model.take(sequence)));
        expect({ last: state.last, missing: state.missing.flatMap(numbersOf) }).toEqual(model.state);
        expectApart(state.missing);
      }),
      { seed: 20_260_102, numRuns: 1_500 },
    );
  });

  it('leave no gap once all have arrived, in any order', () => {
    const shuffled = fc.shuffledSubarray(
      Array.from({ length: 60 }, (_, n) => n),
      { minLength: 60 },
    );
    fc.assert(
      fc.property(shuffled, (sequences) => {
        const end = sequences.reduce((state, sequence) => judge(state, sequence)[1], NEW_PRODUCER);
        expect(end).toEqual({ last: 59, missing: [] });
      }),
      { seed: 20_260_103, numRuns: 300 },
    );
  });

  it('may start at 0 or at 1 without a gap, and 0 may arrive late', () => {
    expect(judge(NEW_PRODUCER, 0)[0]).toEqual({ kind: 'next' });
    const [first, state] = judge(NEW_PRODUCER, 1);
    expect([first, judge(state, 0)[0], judge(state, 2)[0]]).toEqual([
      { kind: 'next' },
      { kind: 'filler' },
      { kind: 'next' },
    ]);
    expect(judge(NEW_PRODUCER, 2)[0]).toEqual({ kind: 'jump', gap: { from: 1, to: 1 } });
  });

  it('are refused, and nothing is forgotten, when a jump would make one gap too many', () => {
    const missing = Array.from({ length: MAX_GAPS }, (_, n) => ({ from: 2 * n, to: 2 * n }));
    const full: ProducerState = { last: 2 * MAX_GAPS, missing };
    expect(judge(full, full.last + 2)).toEqual([{ kind: 'too-many-gaps' }, full]);
    expect(judge(full, full.last + 1)[0]).toEqual({ kind: 'next' });
    expect(judge(full, 0)[0]).toEqual({ kind: 'filler' });
  });

  it('are also refused when a late number would split one gap too many', () => {
    const missing = [{ from: 0, to: 8 }, ...Array.from({ length: MAX_GAPS - 1 }, (_, n) => hole(10 + 2 * n))];
    const full: ProducerState = { last: 4 * MAX_GAPS, missing };
    expect(judge(full, 4)).toEqual([{ kind: 'too-many-gaps' }, full]);
    expect(judge(full, 0)[0]).toEqual({ kind: 'filler' });
    expect(judge(full, 8)[0]).toEqual({ kind: 'filler' });
  });
});

function hole(at: number): Range {
  return { from: at, to: at };
}

function numbersOf({ from, to }: Range): number[] {
  return Array.from({ length: to - from + 1 }, (_, n) => from + n);
}

/** Ascending, none empty, no two adjacent. */
function expectApart(ranges: readonly Range[]): void {
  const wrong = ranges.filter(
    ({ from, to }, index) => from > to || from <= (ranges[index - 1]?.to ?? -2) + 1,
  );
  expect(wrong).toEqual([]);
}
