import { milliseconds } from '../duration.ts';
import { Reject, Retry, reasonOf } from '../errors.ts';
import type { Verdict } from './settler.ts';

/** A limit of the service: it would refuse the whole request. */
const MAX_AFTER_MS = 30 * 86_400_000;

/**
 * What a handler threw decides; anything but a Reject is retried, by the listener's schedule unless a Retry says when. `fault`:
 * what is wrong with the time that it says.
 */
export function verdictOf(error: { readonly cause: unknown } | undefined): {
  readonly verdict: Verdict;
  readonly fault?: string;
} {
  if (!error) return { verdict: { kind: 'acknowledge' } };
  const { cause } = error;
  const reason = reasonOf(cause);
  if (cause instanceof Reject) return { verdict: { kind: 'reject', reason } };
  if (!(cause instanceof Retry)) return { verdict: { kind: 'retry', reason } };
  try {
    return { verdict: { kind: 'retry', after: afterOf(cause), reason } };
  } catch (fault) {
    return { verdict: { kind: 'retry', reason }, fault: (fault as TypeError).message };
  }
}

function afterOf({ after }: Retry): string {
  const ms = Math.round(milliseconds(after, 'the time of a Retry'));
  if (ms > MAX_AFTER_MS) throw new TypeError(`the time of a Retry must be 30d at most, not ${after}`);
  return `${ms}ms`;
}
