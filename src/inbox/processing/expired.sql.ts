/**
 * inbox.expired — what waits behind a hold and is too late. A claim meets what is ready; behind a hold without end it
 * would meet nobody. $1 most
 */
export const EXPIRED = `
  SELECT position, lane FROM inbox
  WHERE settled_at IS NULL AND waits = 'held' AND expires_at <= statement_timestamp()
  ORDER BY expires_at LIMIT $1`;

/**
 * inbox.expiredScheduled — what expires before it is due. POST refuses it; what is there all the same must not wait for its
 * dueAt, which may be years away. $1 max
 */
export const EXPIRED_SCHEDULED = `
  SELECT position, lane FROM inbox
  WHERE settled_at IS NULL AND waits = 'due' AND expires_at <= due_at AND expires_at <= statement_timestamp()
  ORDER BY expires_at LIMIT $1`;

/** inbox.expire — in a locked lane; what its holder has in its hands is left to it. $1 positions, $2 error */
export const EXPIRE = `
  UPDATE inbox SET status = 'expired', waits = NULL, settled_at = now(), lapsed_at = now(), error = $2
  WHERE position = ANY ($1::bigint[]) AND status IN ('held', 'scheduled')`;
