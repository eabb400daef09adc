import { CLAIMED_COLUMNS } from './processing/claimed-message.ts';

/**
 * pending.oneSnapshot — the messages and the tables as of one moment. In READ COMMITTED a message that is finished
 * between our look at the inbox and our applying it would be shown applied twice; here that is a conflict. Nobody waits
 * long for a row that the processor has in hand: the processor goes first.
 */
export const ONE_SNAPSHOT = `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = '1s'`;

/** pending.messages — what waits for a key, in order; what is scheduled for later is not part of the near future. */
export const PENDING_MESSAGES = `
  SELECT position, lane, ctid AS place, ${CLAIMED_COLUMNS} FROM inbox
  WHERE key = $1 AND settled_at IS NULL AND waits IS DISTINCT FROM 'due' ORDER BY position LIMIT $2`;
