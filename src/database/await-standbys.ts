import { prepared } from './prepared.ts';

/**
 * For a transaction that only reads, where what it read is promised to somebody: its COMMIT then waits for the synchronous
 * standbys as that of a writer does. A row that can be seen need not be replicated: the wait of whoever wrote it may have been
 * cancelled, or ended by a restart of the server. Nothing is written where no standby is waited for.
 */
export const AWAIT_STANDBYS = prepared(`
  SELECT CASE WHEN current_setting('synchronous_standby_names') <> ''
              THEN pg_logical_emit_message(true, 'sluice', ''::text) END AS written`);
