/** The state of one producer: the highest number so far, and the ranges below it that have not been received. */
export interface ProducerState {
  readonly last: number;
  /** Inclusive, ascending, not adjacent. */
  readonly missing: readonly Range[];
}

export const NEW_PRODUCER: ProducerState = { last: -1, missing: [] };

export interface Range {
  readonly from: number;
  readonly to: number;
}

export type Verdict =
  | { readonly kind: 'next' }
  | { readonly kind: 'seen' }
  | { readonly kind: 'jump'; readonly gap: Range }
  | { readonly kind: 'filler' }
  | { readonly kind: 'too-many-gaps' };

/** A producer with this many gaps is broken. To refuse its messages loses nothing; to forget a gap would. */
export const MAX_GAPS = 10_000;

/**
 * last + 1 → next; seen before → duplicate; higher → accepted, and the gap is reported; a number that fills a reported
 * gap → accepted. Numbers may start at 0 or 1, so a first 1 reports no gap, and a 0 after it is still accepted.
 */
export function judge(state: ProducerState, sequence: number): [Verdict, ProducerState] {
  if (sequence > state.last) return advance(state, sequence);
  const index = state.missing.findIndex(({ from, to }) => from <= sequence && sequence <= to);
  if (index < 0) return [{ kind: 'seen' }, state];
  const missing = without(state.missing, index, sequence);
  // A filler in the middle of a gap splits it into two.
  if (missing.length > MAX_GAPS) return [{ kind: 'too-many-gaps' }, state];
  return [{ kind: 'filler' }, { last: state.last, missing }];
}

function advance(state: ProducerState, sequence: number): [Verdict, ProducerState] {
  const skipped: Range = { from: state.last + 1, to: sequence - 1 };
  if (skipped.from > skipped.to) return [{ kind: 'next' }, { last: sequence, missing: state.missing }];
  if (state.missing.length >= MAX_GAPS) return [{ kind: 'too-many-gaps' }, state];
  const next = { last: sequence, missing: [...state.missing, skipped] };
  const gap = { from: Math.max(skipped.from, 1), to: skipped.to };
  return [gap.from > gap.to ? { kind: 'next' } : { kind: 'jump', gap }, next];
}

function without(missing: readonly Range[], index: number, sequence: number): Range[] {
  const { from, to } = missing[index]!;
  const rest = [
    { from, to: sequence - 1 },
    { from: sequence + 1, to },
  ].filter((range) => range.from <= range.to);
  return missing.toSpliced(index, 1, ...rest);
}

/** PostgreSQL's int8multirange, `{[3,5),[9,10)}`. */
export function toMultirange(ranges: readonly Range[]): string {
  return `{${ranges.map(({ from, to }) => `[${from},${to + 1})`).join(',')}}`;
}

export function fromMultirange(text: string): Range[] {
  return [...text.matchAll(/\[(\d+),(\d+)\)/g)].map(([, from, to]) => ({
    from: Number(from),
    to: Number(to) - 1,
  }));
}
