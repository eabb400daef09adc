/** RFC 3339 with microseconds, as they were posted. */
const EXACT = (time: string) => `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

/**
 * history.move — takes finished messages out of the inbox, and remembers their identities. Those with a delivery or an entry
 * of a topic stay: they may have been replayed since they were selected. So do those that a rebuild has yet to read from the
 * inbox. $1 positions
 */
export const MOVE = `
  WITH moved AS (
    DELETE FROM inbox
    WHERE position = ANY ($1::bigint[]) AND settled_at IS NOT NULL AND lapsed_at IS NULL
      AND NOT EXISTS (SELECT FROM outbox WHERE outbox.message = inbox.position)
      AND NOT EXISTS (SELECT FROM topic_entry WHERE topic_entry.message = inbox.position)
      AND NOT EXISTS (
        SELECT FROM rebuild_lane AS needed WHERE needed.lane = inbox.lane
          AND (COALESCE(inbox.applied, 0), inbox.position) > (needed.applied, needed.position))
    RETURNING *
  ),
  remembered AS (
    INSERT INTO archive_id (id, place, identity, content)
    SELECT hashtextextended(id, 0), position * 16 + lane / 16, archive_identity(source, id),
           archive_content(type, key, payload, headers, occurred_at, due_at, expires_at)
    FROM moved
  )
  SELECT position, COALESCE(applied, 0) AS applied, lane, id, source, type, key, payload::text AS payload, headers,
         ${EXACT('occurred_at')} AS "occurredAt", floor(extract(epoch FROM received_at) * 1000)::float8 AS "receivedMs"
  FROM moved`;

export const INSERT_BLOCK = `
  INSERT INTO archive_block (lane_group, first_applied, first_position, last_applied, last_position, low_position,
                             high_position, types, count, bytes, from_at, to_at, body)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`;
