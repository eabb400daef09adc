import { utc } from '../../database/utc.ts';
import type { AttemptView, DeliveryStatus, MessageDelivery, Ruling } from './deliveries.openapi.ts';

/** Max attempts shown of a delivery: one that was asked to wait for days may have thousands. */
export const MAX_ATTEMPTS = 50;

/** The columns `attempts` (the newest ones, in order) and `attempts_total` of the delivery at a position. */
export const ATTEMPTS_OF = (position: string) => `
  COALESCE((SELECT json_agg(json_build_object('at', ${utc('newest.at')}, 'attempt', newest.attempt, 'status', newest.status,
                                              'error', newest.error, 'durationMs', newest.duration_ms,
                                              'excerpt', newest.excerpt) ORDER BY newest.at)
            FROM (SELECT attempt.* FROM attempt WHERE attempt.delivery = ${position}
                  ORDER BY attempt.delivery DESC, attempt.at DESC LIMIT ${MAX_ATTEMPTS}) AS newest), '[]') AS attempts,
  (SELECT count(*)::int FROM attempt WHERE attempt.delivery = ${position}) AS attempts_total`;

/** Columns of a delivery whose lease, if a consumer has it now, is joined as `lease`: its row does not change with the hand-out. */
export const STATUS = `CASE WHEN lease.position IS NULL THEN outbox.status ELSE 'processing' END`;
export const ATTEMPT = 'COALESCE(lease.attempt, outbox.attempt)';
export const JOIN_LEASE =
  'LEFT JOIN pull_lease AS lease ON lease.lane = outbox.lane AND lease.position = outbox.position';

export interface DeliveryRow {
  readonly id: string;
  readonly listener: string | null;
  readonly status: DeliveryStatus;
  readonly attempt: number;
  readonly error: string | null;
  readonly sequence: number;
  readonly created_at: Date;
  readonly settled_at: Date | null;
  readonly answered: number | null;
  readonly duration_ms: number | null;
  readonly excerpt: string | null;
  /** The newest ones. */
  readonly attempts: readonly AttemptView[];
  readonly attempts_total: number;
  /** What an operator decided about it when it was a dead letter. */
  readonly ruling?: Ruling | null;
}

/** A delivery as the API shows it. The attempt that delivered it is stored in the outbox row, not in `attempt`. */
export function deliveryView(row: DeliveryRow): MessageDelivery {
  const { id, listener, status, attempt, error, sequence } = row;
  const last = row.status === 'finished' ? [lastAttempt(row)] : [];
  return {
    id,
    listener,
    status,
    attempt,
    sequence,
    error,
    createdAt: row.created_at,
    settledAt: row.settled_at,
    attempts: [...row.attempts, ...last],
    attemptsTotal: row.attempts_total + last.length,
    ...(row.ruling ? { ruling: row.ruling } : {}),
  };
}

function lastAttempt({ settled_at, attempt, answered, duration_ms, excerpt }: DeliveryRow): AttemptView {
  return { at: settled_at!, attempt, status: answered, error: null, durationMs: duration_ms, excerpt };
}
