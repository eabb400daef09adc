import { CLAIMED_COLUMNS } from './claimed-message.ts';

/**
 * pending.oneSnapshot — the messages and the tables as of one moment. In READ COMMITTED a message that is finished
 * between our look at the inbox and our applying it would be shown applied twice; here that is a conflict. Nobody waits
 * long for a row that the processor has in hand: the processor goes first.
 */
export const ONE_SNAPSHOT = `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = '1s'`;

const WAITING = `SELECT position FROM inbox WHERE lane = $1 AND key = $2 AND NOT keyless AND settled_at IS NULL`;

/**
 * pending.messages — what waits for a key, in order; what is scheduled for later is not part of the near future. Looked for
 * among what is ready in its lane and what is held: by the key alone, all that is kept of it would be read. Only of those
 * that are wanted the rest is read: their payloads may be anywhere.
 * $1 lane, $2 key, $3 most
 */
export const PENDING_MESSAGES = `
  SELECT position, lane, ctid AS place, ${CLAIMED_COLUMNS} FROM inbox
  WHERE position = ANY (ARRAY(
    SELECT position FROM (${WAITING} AND waits IS NULL UNION ALL ${WAITING} AND waits = 'held') AS waiting
    ORDER BY position LIMIT $3))
  ORDER BY position`;
