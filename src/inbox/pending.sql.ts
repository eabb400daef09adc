import { CLAIMED_COLUMNS } from './inbox-queue.ts';

/**
 * pending.oneSnapshot — reads the messages and the tables as of one moment. In READ COMMITTED, a message that is finished
 * after the inbox was read and before it is applied here would be shown applied twice; here that is a conflict. A row that
 * the processor has locked is not waited for long: the processor goes first.
 */
export const ONE_SNAPSHOT = `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = '1s'`;

/**
 * pending.schemaSwitched — schemas whose name means another one now than in the snapshot. A name is looked up in the newest
 * catalogue, rows are read as of the snapshot: tables of a read model that was switched meanwhile would be read as they were
 * before its last messages.
 */
export const SCHEMA_SWITCHED = `
  SELECT nspname FROM pg_namespace WHERE nspname = ANY (current_schemas(false)) AND oid <> to_regnamespace(quote_ident(nspname)) LIMIT 1`;

const WAITING = `SELECT position FROM inbox WHERE lane = $1 AND key = $2 AND NOT keyless AND settled_at IS NULL`;

/**
 * pending.messages — the waiting messages of a key, in order, without scheduled ones. Searched among the ready rows of the
 * lane and the held rows: by the key alone, all stored rows of the key would be read. The other columns are read only for the
 * rows that are returned, because their payloads may be stored apart.
 * $1 lane, $2 key, $3 max
 */
export const PENDING_MESSAGES = `
  SELECT position, lane, ctid AS place, ${CLAIMED_COLUMNS} FROM inbox
  WHERE position = ANY (ARRAY(
    SELECT position FROM (${WAITING} AND waits IS NULL UNION ALL ${WAITING} AND waits = 'held') AS waiting
    ORDER BY position LIMIT $3))
  ORDER BY position`;
