export const MAX_WAITING = 10_000;
const SINCE = 'COALESCE(waits_since, GREATEST(received_at, due_at))';

/**
 * keys.waiting — messages of a key that wait, held or ready, counted up to a limit. Ready ones are found among the first
 * ready ones of the lane. $1 lane, $2 key
 */
export const WAITING = `
  WITH waiting AS MATERIALIZED (
    (SELECT ${SINCE} AS since FROM inbox
     WHERE lane = $1 AND key = $2 AND settled_at IS NULL AND waits = 'held' ORDER BY lane, key, position LIMIT ${MAX_WAITING})
    UNION ALL
    SELECT since FROM (
      SELECT key, ${SINCE} AS since FROM inbox
      WHERE lane = $1 AND settled_at IS NULL AND waits IS NULL ORDER BY lane, position LIMIT ${MAX_WAITING}
    ) AS ready WHERE key = $2
  )
  SELECT LEAST(count(*), ${MAX_WAITING})::int AS count,
         GREATEST(0, extract(epoch FROM clock_timestamp() - min(since)))::float8 AS "oldestSeconds"
  FROM waiting`;
