/** doctor.query — the state of a server that decides whether the promises hold on it. */
export const DOCTOR_QUERY = `
  SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int / 10000 AS major,
         current_setting('synchronous_commit') AS durability, current_setting('server_encoding') AS encoding,
         current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
         current_setting('transaction_read_only') AS read_only, current_setting('autovacuum') AS autovacuum,
         current_setting('default_transaction_isolation') AS isolation,
         current_setting('max_connections')::int AS max_connections,
         (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
         (SELECT extract(epoch FROM max(clock_timestamp() - xact_start))::float8 FROM pg_stat_activity
          WHERE backend_type = 'client backend' AND datname = current_database()) AS longest_transaction,
         (SELECT count(*) FROM pg_replication_slots WHERE NOT active) AS slots_behind,
         (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms`;
