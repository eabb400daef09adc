import { Defer, Refuse } from '../../contract/outcomes.ts';
import { groupBy } from '../../database/group-by.ts';
import type { ApplyFailed } from '../denormalizers/denormalizer-runner.ts';

/** What happens to a message that could not be applied. */
export type Failure =
  | { readonly kind: 'retry'; readonly afterMs: number; readonly error: string }
  | { readonly kind: 'deferred'; readonly afterMs: number; readonly error: string }
  | { readonly kind: 'dead'; readonly error: string };

const MAX_ERROR = 1_000;

/** Pure: depends on the error, the attempt and the schedule. `random` from 0 to 1 delays retries by up to 20 %. */
export function decide(
  error: unknown,
  attempt: number,
  retryScheduleMs: readonly number[],
  random: number = Math.random(),
): Failure {
  const text = errorText(error);
  if (error instanceof Defer) return { kind: 'deferred', afterMs: error.delayMs, error: text };
  if (error instanceof Refuse) return { kind: 'dead', error: text };
  const delayMs = retryScheduleMs[attempt - 1];
  if (delayMs === undefined) return { kind: 'dead', error: text };
  return { kind: 'retry', afterMs: Math.round(delayMs * (1 + random * 0.2)), error: text };
}

/** For people: of limited length, and without the values that PostgreSQL quotes from the row. */
export function errorText(error: unknown): string {
  return textOfThrown(error).replaceAll('\u0000', '').slice(0, MAX_ERROR);
}

/** Anything can be thrown, also a value that cannot be converted to text: that must not cause an error here. */
function textOfThrown(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return `something that cannot be shown as text was thrown (${typeof error})`;
  }
}

interface Keyed {
  readonly key: string;
}

/** A batch that failed. Its failed messages are retried alone, and share what the first of them shows. */
export interface FailedBatch {
  readonly failure: ApplyFailed;
  /** One of them hung again when it was alone: the others need not be tried to know that they hang. */
  hangs: boolean;
}

/** Messages to be applied in one transaction. */
export interface WorkItem<Row extends Keyed> {
  readonly rows: readonly Row[];
  /** Later messages of the same key as the single message in `rows`: they come next, unless their key has to wait. */
  readonly behind: readonly Row[];
  /** How many transactions failed one after the other, each with the messages that the previous one had left over. */
  readonly failures: number;
  /** Of a message that is retried alone. */
  readonly failedBatch?: FailedBatch;
}

export function workItem<Row extends Keyed>(
  rows: readonly Row[],
  behind: readonly Row[] = [],
): WorkItem<Row> {
  return { rows, behind, failures: 0 };
}

/**
 * Pure: what follows when several messages failed together. If it is not known which of them failed, the messages of
 * each key one by one. Otherwise first the messages that did not fail, then each failed one alone. A statement that fails
 * hides what the other messages would have done, so more of them may fail: from the second failure on, the rest is tried in
 * halves. Earlier messages of a failed message's key are among the rest: when one of them fails too, its key waits, and the
 * messages behind it do not overtake it.
 */
export function split<Row extends Keyed>(
  rows: readonly Row[],
  failures: number,
  failure: ApplyFailed,
  failed: readonly Row[],
): WorkItem<Row>[] {
  if (failed.length === 0)
    return groupBy(rows, ({ key }) => key).map(([first, ...rest]) => workItem([first!], rest));
  const { others, alone } = separateFailed(rows, failed);
  const parts = failures > 0 ? halves(others) : [others];
  const failedBatch = { failure, hangs: false };
  return [
    ...parts.map((part) => ({ rows: part, behind: [], failures: failures + 1 })),
    ...alone.map(([first, ...behind]) => ({ rows: [first!], behind, failures: 0, failedBatch })),
  ].filter((item) => item.rows.length > 0);
}

/** For each key the first message that failed with those behind it, and all the others. */
export function separateFailed<Row extends Keyed>(
  rows: readonly Row[],
  failed: readonly Row[],
): { others: Row[]; alone: Row[][] } {
  const failedRows = new Set(failed);
  const alone = new Map<string, Row[]>();
  const others: Row[] = [];
  for (const row of rows) {
    const behind = alone.get(row.key);
    if (behind) behind.push(row);
    else if (failedRows.has(row)) alone.set(row.key, [row]);
    else others.push(row);
  }
  return { others, alone: [...alone.values()] };
}

/** The messages of a key stay together. */
export function halves<Row extends Keyed>(rows: readonly Row[]): Row[][] {
  const keys = groupBy(rows, ({ key }) => key);
  const middle = Math.ceil(keys.length / 2);
  return [keys.slice(0, middle).flat(), keys.slice(middle).flat()];
}
