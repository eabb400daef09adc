import { utc } from '../../database/utc.ts';

/** Attempts shown of a delivery; of one that was asked to wait for days there may be thousands. */
export const MAX_ATTEMPTS = 50;

/** Columns `attempts`, the newest of them in order, and `attempts_total` of the delivery at a position. */
export const ATTEMPTS_OF = (position: string) => `
  COALESCE((SELECT json_agg(json_build_object('at', ${utc('newest.at')}, 'attempt', newest.attempt, 'status', newest.status,
                                              'error', newest.error, 'durationMs', newest.duration_ms,
                                              'excerpt', newest.excerpt) ORDER BY newest.at)
            FROM (SELECT attempt.* FROM attempt WHERE attempt.delivery = ${position}
                  ORDER BY attempt.delivery DESC, attempt.at DESC LIMIT ${MAX_ATTEMPTS}) AS newest), '[]') AS attempts,
  (SELECT count(*)::int FROM attempt WHERE attempt.delivery = ${position}) AS attempts_total`;
