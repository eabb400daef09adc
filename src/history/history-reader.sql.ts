const COLUMNS = `position, COALESCE(applied, 0) AS applied, lane, id, source, type, key, payload::text AS payload, headers,
  to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "occurredAt",
  floor(extract(epoch FROM received_at) * 1000)::float8 AS "receivedMs"`;

/**
 * history.inboxAfter — the next finished messages of each lane behind a place. Only positions and sizes, so that the payloads that
 * are loaded fit into memory. $1 lanes, $2 applied, $3 position, $4 type patterns, $5 max messages
 */
export const INBOX_AFTER = `
  SELECT next.* FROM unnest($1::integer[]) AS wanted(lane)
  CROSS JOIN LATERAL (
    SELECT position, COALESCE(applied, 0) AS applied, octet_length(payload::text) AS bytes FROM inbox
    WHERE inbox.lane = wanted.lane AND (inbox.lane, COALESCE(inbox.applied, 0), inbox.position) > (wanted.lane, $2::bigint, $3::bigint)
      AND settled_at IS NOT NULL AND lapsed_at IS NULL AND ($4::text[] IS NULL OR type LIKE ANY ($4::text[]))
    ORDER BY inbox.lane, COALESCE(inbox.applied, 0), inbox.position LIMIT $5
  ) AS next
  ORDER BY applied, position LIMIT $5`;

/** history.inboxMessages — $1 positions */
export const INBOX_MESSAGES = `
  SELECT ${COLUMNS} FROM inbox WHERE position = ANY ($1::bigint[]) AND settled_at IS NOT NULL AND lapsed_at IS NULL`;

/** history.gap — up to when messages of these types may be missing. $1 type patterns; null: all types */
export const GAP = `
  SELECT max("to") AS "to" FROM history_gap
  WHERE type = '*' OR $1::text[] IS NULL OR type LIKE ANY ($1::text[])`;
