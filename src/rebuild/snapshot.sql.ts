const COMPARES = `hashtext('sluice.rebuild'), $1::int`;

/** Whether no replica compares; the lock is released at once. $1 rebuild */
export const FREE_TO_COMPARE = `SELECT pg_try_advisory_xact_lock(${COMPARES}) AS free`;

/** Batches of live messages in flight end first, new ones wait at their fence. */
export const LOCK_LANES = `SELECT lane FROM lane WHERE queue = 'inbox' ORDER BY lane FOR NO KEY UPDATE`;

/** The first statement of the reader takes its snapshot, and the lock that keeps others from comparing, too. $1 rebuild */
export const SNAPSHOT = `SELECT pg_try_advisory_xact_lock(${COMPARES}) AS mine`;
