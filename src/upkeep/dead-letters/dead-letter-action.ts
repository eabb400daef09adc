import type { Stage } from './dead-letter-filter.ts';

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
  readonly filter: unknown;
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
}

/** The result of a step: it changed rows of a lane, has to wait because the maximum is in flight, or found nothing left. */
export type Step =
  | {
      readonly kind: 'applied';
      readonly action: ActionKind;
      readonly stage: Stage;
      readonly lane: number;
      readonly changed: number;
    }
  | { readonly kind: 'full' | 'done' };

export function actionView({ id, matched, done, skipped, waiting, dead, ...row }: ActionProgress) {
  return {
    id: String(id),
    kind: row.kind,
    status: row.done_at && waiting === 0 ? 'finished' : 'running',
    matched,
    done,
    skipped,
    remaining: row.done_at ? 0 : matched - done - skipped,
    ...(row.kind === 'revive' ? { waiting, ended: done - waiting - dead, dead } : {}),
    filter: row.filter,
    reason: row.reason,
    createdAt: row.created_at,
    createdBy: row.created_by,
  };
}
