import { Reject, reasonOf } from '../errors.ts';

export type Decision =
  | { readonly kind: 'reject'; readonly reason: string }
  | { readonly kind: 'retry'; readonly afterMs: number };

/** What becomes of a message whose handler failed `tries` times: a Reject and a used-up list end it, with the error as reason. */
export function decide(error: unknown, tries: number, retryMs: readonly number[]): Decision {
  const afterMs = retryMs[tries - 1];
  if (error instanceof Reject || afterMs === undefined) return { kind: 'reject', reason: reasonOf(error) };
  return { kind: 'retry', afterMs };
}
