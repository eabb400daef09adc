import { Defer, Refuse } from '../../contract/outcomes.ts';

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
  return spoken(error).replaceAll('\u0000', '').slice(0, MAX_ERROR);
}

/** Anything can be thrown, also a value that cannot be converted to text: that must not cause an error here. */
function spoken(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return `something that cannot be shown as text was thrown (${typeof error})`;
  }
}
