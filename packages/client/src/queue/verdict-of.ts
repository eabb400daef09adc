import { milliseconds } from '../duration.ts';
import { Reject, Retry, reasonOf } from '../errors.ts';
import type { Verdict } from './settler.ts';

/** What a handler threw decides; anything but a Reject is retried, by the listener's schedule unless a Retry says when. */
export function verdictOf(error: { readonly cause: unknown } | undefined): Verdict {
  if (!error) return { kind: 'acknowledge' };
  const { cause } = error;
  const reason = reasonOf(cause);
  if (cause instanceof Reject) return { kind: 'reject', reason };
  if (cause instanceof Retry)
    return { kind: 'retry', after: `${Math.round(milliseconds(cause.after, 'after'))}ms`, reason };
  return { kind: 'retry', reason };
}
