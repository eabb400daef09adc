/**
 * inbox.oldSnapshot — whether somebody may still see what was there so long ago: then nothing that was settled since can be
 * cleaned up. One who has written pins as much as one who reads. Autovacuum has a snapshot, too, but keeps nobody from
 * cleaning up. Sessions of other roles show their times only to members of pg_read_all_stats. $1 ms
 */
export const OLD_SNAPSHOT = `
  SELECT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
      AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
      AND xact_start < clock_timestamp() - $1 * interval '1 millisecond') AS old`;
