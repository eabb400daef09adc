import type { Stage } from './dead-letter-filter.ts';

/** What an operator decides about dead letters: they run again, or they end for good and their keys go on. */
export type RulingKind = 'revive' | 'discard';

export interface RulingRequest {
  readonly kind: RulingKind;
  readonly by: string;
  readonly reason: string | undefined;
}

export interface RulingProgress {
  readonly id: number;
  readonly kind: RulingKind;
  readonly filter: unknown;
  readonly reason: string | null;
  readonly matched: number;
  readonly done: number;
  /** They were no dead letters any more when their turn came. */
  readonly skipped: number;
  /** Revived, and not settled again. */
  readonly waiting: number;
  /** Revived, and dead once more. */
  readonly dead: number;
  readonly created_at: Date;
  readonly created_by: string;
  readonly done_at: Date | null;
}

/** What a step did: changed rows of a lane, had to wait because enough is on its way, or found nothing left. */
export type Step =
  | {
      readonly kind: 'applied';
      readonly ruling: RulingKind;
      readonly stage: Stage;
      readonly lane: number;
      readonly changed: number;
    }
  | { readonly kind: 'full' | 'done' };

export function rulingView({ id, matched, done, skipped, waiting, dead, ...row }: RulingProgress) {
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
