/**
 * inbox.expired — held messages that have expired. A claim ends expired messages that are ready; messages behind a hold
 * without end are never claimed. $1 max
 */
export const EXPIRED = `
  SELECT position, lane FROM inbox
  WHERE settled_at IS NULL AND waits = 'held' AND expires_at <= statement_timestamp()
  ORDER BY expires_at LIMIT $1`;

/**
 * inbox.expiredScheduled — scheduled messages that expire before they are due. POST rejects them; a row that exists
 * nevertheless must not wait for its dueAt, which may be years away. $1 max
 */
export const EXPIRED_SCHEDULED = `
  SELECT position, lane FROM inbox
  WHERE settled_at IS NULL AND waits = 'due' AND expires_at <= due_at AND expires_at <= statement_timestamp()
  ORDER BY expires_at LIMIT $1`;

/** inbox.expire — in a locked lane; rows that its holder has claimed are left to it. $1 positions, $2 error */
export const EXPIRE = `
  UPDATE inbox SET status = 'expired', waits = NULL, settled_at = now(), lapsed_at = now(), error = $2
  WHERE position = ANY ($1::bigint[]) AND status IN ('held', 'scheduled')`;
