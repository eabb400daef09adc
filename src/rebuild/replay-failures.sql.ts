/** Lanes whose next message has failed. $1 rebuild */
export const LANES_FAILED = 'SELECT lane FROM rebuild_lane WHERE rebuild = $1 AND attempts > 0';

/** And is to be tried later. $1 rebuild */
export const LANES_WAITING = `SELECT lane FROM rebuild_lane WHERE rebuild = $1 AND retry_at > clock_timestamp()`;

/** $1 rebuild */
export const LOCK_AT_WORK = `
  SELECT id FROM rebuild WHERE id = $1 AND NOT paused AND status IN ('replaying', 'comparing', 'ready', 'switching') FOR UPDATE`;

/** No row if the lane is elsewhere: another replica has applied the message. $1 rebuild, $2 lane, $3 applied, $4 position */
export const LOCK_LANE = `
  SELECT attempts FROM rebuild_lane WHERE rebuild = $1 AND lane = $2 AND applied = $3 AND position = $4 FOR UPDATE`;

/** $1 rebuild, $2 lane, $3 attempts, $4 ms until the next; null: none */
export const TRY_AGAIN = `
  UPDATE rebuild_lane SET attempts = $3, retry_at = clock_timestamp() + $4::int * interval '1 millisecond' WHERE rebuild = $1 AND lane = $2`;

/** $1 rebuild, $2 position, $3 source, $4 id, $5 error, $6 by, $7 reason */
export const RECORD_FAILURE = `
  INSERT INTO rebuild_failure (rebuild, position, source, id, error, skipped_by, reason) VALUES ($1, $2, $3, $4, $5, $6, $7)
  ON CONFLICT DO NOTHING`;

/** $1 rebuild, $2 failure */
export const STOP = `UPDATE rebuild SET status = 'failed', failure = $2 WHERE id = $1`;
