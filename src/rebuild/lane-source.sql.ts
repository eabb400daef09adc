/** Finished messages of a lane, in the order they were applied: the index `inbox_applied`. */
const FINISHED = 'inbox.settled_at IS NOT NULL AND inbox.lapsed_at IS NULL';
const AFTER = (cursor: string) => `
  (inbox.lane, COALESCE(inbox.applied, 0), inbox.position) > (${cursor}.lane, ${cursor}.applied, ${cursor}.position)
  AND (inbox.lane, COALESCE(inbox.applied, 0), inbox.position) < (${cursor}.lane + 1, 0, 0)`;

/** Lanes that have messages beyond where the rebuild is, if the history of their group is read to its end. $1 rebuild */
export const LANES_BEHIND = `
  SELECT progress.lane, progress.applied, progress.position FROM rebuild_lane AS progress
  WHERE progress.rebuild = $1 AND EXISTS (SELECT FROM inbox WHERE ${FINISHED} AND ${AFTER('progress')} LIMIT 1)
    AND NOT EXISTS (
      SELECT FROM rebuild_history AS history WHERE history.rebuild = $1 AND history.lane_group = progress.lane / 16 AND NOT complete)`;

/**
 * The next messages of lanes. Payloads only of the types of the read model, and only small ones; the others are loaded in
 * parts. $1 lanes, $2 applied, $3 positions, $4 rows per lane, $5 types, $6 and $7 up to which place; null: all
 */
export const NEXT_OF_LANES = `
  SELECT page.* FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS cursor(lane, applied, position)
  CROSS JOIN LATERAL (
    SELECT inbox.lane, COALESCE(inbox.applied, 0) AS applied, inbox.position, id, source, type, key, attempt, headers, occurred_at,
           floor(extract(epoch FROM received_at) * 1000)::float8 AS "receivedMs", type = ANY ($5) AS wanted,
           CASE WHEN type = ANY ($5) AND pg_column_size(payload) <= 2000 THEN payload::text ELSE '' END AS payload,
           CASE WHEN type = ANY ($5) AND pg_column_size(payload) > 2000 THEN octet_length(payload::text) ELSE 0 END AS bytes
    FROM inbox WHERE ${FINISHED} AND ${AFTER('cursor')}
      AND ($6::bigint IS NULL OR (inbox.lane, COALESCE(inbox.applied, 0), inbox.position) <= (cursor.lane, $6::bigint, $7::bigint))
    ORDER BY inbox.lane, COALESCE(inbox.applied, 0), inbox.position LIMIT $4
  ) AS page ORDER BY page.lane, page.applied, page.position`;

/** How many messages the lanes are behind, counted up to the max. $1 rebuild, $2 max */
export const COUNT_BEHIND = `
  SELECT count(*)::int AS behind FROM (
    SELECT FROM rebuild_lane AS progress CROSS JOIN LATERAL (
      SELECT FROM inbox WHERE ${FINISHED} AND ${AFTER('progress')} ORDER BY inbox.lane, COALESCE(inbox.applied, 0), inbox.position LIMIT $2
    ) AS next WHERE progress.rebuild = $1 LIMIT $2
  ) AS found`;

/** Whether a message of these types is among the next of a lane. $1 rebuild, $2 types, $3 max per lane */
export const IS_NEXT = `
  SELECT EXISTS (
    SELECT FROM rebuild_lane AS progress CROSS JOIN LATERAL (
      SELECT type FROM inbox WHERE ${FINISHED} AND ${AFTER('progress')} ORDER BY inbox.lane, COALESCE(inbox.applied, 0), inbox.position LIMIT $3
    ) AS next WHERE progress.rebuild = $1 AND next.type = ANY ($2)) AS found`;

/** How many messages there are to replay. $1 types: not filtered by them, because every message has to be read. */
export const COUNT_FINISHED = `SELECT count(*) AS total FROM inbox WHERE ${FINISHED}`;

export const INDEX_PLANS = 'SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off';
export const ANY_PLANS = 'SET LOCAL enable_seqscan = DEFAULT; SET LOCAL enable_bitmapscan = DEFAULT';
