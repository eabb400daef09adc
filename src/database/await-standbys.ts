import { prepared } from './prepared.ts';

/**
 * For a transaction that only reads, but whose result is promised to a caller: with this statement its COMMIT waits for
 * the synchronous standbys, as that of a writing transaction does. A visible row is not necessarily replicated: its
 * writer's wait may have been cancelled, or ended by a restart of the server. Without synchronous standbys nothing is written.
 */
export const AWAIT_STANDBYS = prepared(`
  SELECT CASE WHEN current_setting('synchronous_standby_names') <> ''
              THEN pg_logical_emit_message(true, 'sluice', ''::text) END AS written`);
