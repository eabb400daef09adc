import type { DeadLetterFilter } from './dead-letter-filter.ts';
import type { ActionView } from './dead-letters.openapi.ts';

/**
 * What an operator does with dead letters. Revive: they run again. Discard: they end for good, and the messages behind them
 * are handled. The tables call an action a `ruling`.
 */
export type ActionKind = 'revive' | 'discard';

export interface ActionRequest {
  readonly kind: ActionKind;
  readonly by: string;
  readonly reason: string | undefined;
}

export interface ActionProgress {
  readonly id: number;
  readonly kind: ActionKind;
  readonly filter: DeadLetterFilter;
  readonly reason: string | null;
  readonly matched: number;
  readonly done: number;
  /** Items that were no longer dead letters when the action reached them. */
  readonly skipped: number;
  /** Revived and not settled yet. */
  readonly waiting: number;
  /** Revived and dead again. */
  readonly dead: number;
  readonly created_at: Date;
  readonly created_by: string;
  readonly done_at: Date | null;
  readonly cancelled_at: Date | null;
  readonly cancelled_by: string | null;
}

export function actionView({
  id,
  matched,
  done,
  skipped,
  waiting,
  dead,
  ...row
}: ActionProgress): ActionView {
  return {
    id: String(id),
    kind: row.kind,
    status: statusOf(row.done_at !== null && waiting === 0, row.cancelled_at !== null),
    matched,
    done,
    skipped,
    remaining: row.done_at ? 0 : matched - done - skipped,
    ...(row.kind === 'revive' ? { waiting, ended: done - waiting - dead, dead } : {}),
    filter: row.filter,
    reason: row.reason,
    createdAt: row.created_at,
    createdBy: row.created_by,
    ...(row.cancelled_at ? { cancelledAt: row.cancelled_at, cancelledBy: row.cancelled_by } : {}),
  };
}

/** One that was cancelled still completes the keys that it had begun. */
function statusOf(isDone: boolean, isCancelled: boolean): 'running' | 'finished' | 'cancelled' {
  if (!isDone) return 'running';
  return isCancelled ? 'cancelled' : 'finished';
}
