/** jobs.rebuild */
export const OPEN_REBUILD = 'SELECT model FROM rebuild WHERE ended_at IS NULL LIMIT 1';

/** jobs.lock — none begins until the transaction ends. */
export const LOCK_JOBS = 'LOCK TABLE rebuild, replay, ruling IN SHARE MODE';
