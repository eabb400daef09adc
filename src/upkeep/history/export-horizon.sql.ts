/** history.lastApplied — the last number that a transaction has taken; those that have it may not have committed yet. */
export const LAST_APPLIED = `
  SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS last FROM inbox_applied_seq`;

/**
 * history.atWork — transactions that have locked a lane, as all do before they take a number. Row locks are not in `pg_locks`,
 * but the lock on the table that comes with them is.
 */
export const AT_WORK = `
  SELECT DISTINCT virtualtransaction AS id FROM pg_locks
  WHERE locktype = 'relation' AND relation = 'lane'::regclass AND mode IN ('RowShareLock', 'RowExclusiveLock') AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** history.stillAtWork — $1 transactions */
export const STILL_AT_WORK = 'SELECT FROM pg_locks WHERE virtualtransaction = ANY ($1::text[]) LIMIT 1';
