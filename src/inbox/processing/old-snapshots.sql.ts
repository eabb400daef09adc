/**
 * inbox.oldSnapshot — whether a transaction that began more than $1 ms ago may still see old row versions: then rows that
 * were settled since cannot be vacuumed. A transaction that has written prevents that as much as one that reads. Autovacuum
 * has a snapshot too, but does not prevent it. Sessions of other roles show their times only to members of
 * pg_read_all_stats. $1 ms
 */
export const OLD_SNAPSHOT = `
  SELECT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
      AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
      AND xact_start < clock_timestamp() - $1 * interval '1 millisecond') AS old`;
