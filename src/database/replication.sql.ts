/**
 * replication.read — what a COMMIT of this session waits for, and the standbys that follow. The columns of a standby are
 * NULL for a role that may not read them: `hidden`.
 */
export const READ_REPLICATION = `
  SELECT current_setting('synchronous_standby_names') AS names, current_setting('synchronous_commit') AS commits,
         count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))::int AS synchronous,
         count(*) FILTER (WHERE sync_state = 'potential')::int AS potential,
         count(*) FILTER (WHERE sync_state = 'async' AND state = 'streaming')::int AS asynchronous,
         count(pid) FILTER (WHERE state IS NULL)::int AS hidden
  FROM pg_stat_replication`;
