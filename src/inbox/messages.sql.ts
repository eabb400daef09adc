import { utc } from '../database/utc.ts';
import { withinBytes } from '../http/page-bytes.ts';

const SHOWN = `inbox.position, inbox.id, inbox.source, inbox.type, inbox.key, inbox.status, inbox.attempt, inbox.error,
  inbox.headers, inbox.occurred_at, inbox.received_at, inbox.due_at, inbox.expires_at, inbox.settled_at,
  inbox.producer, inbox.sequence,
  (SELECT winner.id FROM inbox AS winner WHERE winner.position = inbox.superseded_by) AS superseded_by,
  (SELECT json_build_object('kind', kind, 'by', created_by, 'at', ${utc('created_at')}, 'reason', reason)
   FROM ruling WHERE ruling.id = inbox.ruling) AS ruling`;

/**
 * messages.find — by id; several sources may have used the same one. Only the one that the caller gets has its payload: the
 * only one, or the caller's own.
 * $1 id, $2 source or null, $3 whether with the payload, $4 the caller's own source
 */
export const FIND_MESSAGES = `
  SELECT ${SHOWN}, CASE WHEN $3::boolean AND chosen THEN inbox.payload::text END AS payload,
         CASE WHEN chosen THEN octet_length(inbox.payload::text) END AS payload_bytes
  FROM (
    SELECT *, source = $4 OR count(*) OVER () = 1 AS chosen FROM inbox
    WHERE inbox.id = $1 AND ($2::text IS NULL OR inbox.source = $2)
    ORDER BY source = $4 DESC, position LIMIT 20
  ) AS inbox
  ORDER BY inbox.position`;

/**
 * messages.list — newest first, among the rows that `search` finds; only the requested conditions are written, each with its
 * own parameter. Matching rows may be rare: a page reads a limited number of rows, and is complete down to the position `edge`
 * (null: to the end). There is always one row; without a message it has no position.
 * $1 max messages
 */
export function listMessages(search: string, conditions: readonly string[]): string {
  return `
  WITH RECURSIVE ${search},
  edge AS MATERIALIZED (
    SELECT CASE WHEN bool_or(past) THEN NULL ELSE max(position) FILTER (WHERE last) END AS position FROM scanned
  )
  SELECT edge.position AS edge, page.* FROM edge LEFT JOIN LATERAL (${withinBytes(
    `SELECT ${SHOWN} FROM (SELECT position FROM scanned ORDER BY position DESC) AS scanned
    CROSS JOIN LATERAL (
      SELECT * FROM inbox WHERE inbox.position = scanned.position ${conditions.map((one) => `AND ${one}`).join(' ')} LIMIT 1
    ) AS inbox
    WHERE (scanned.position >= edge.position) IS NOT FALSE
    ORDER BY scanned.position DESC LIMIT $1`,
    'position DESC',
  )}
  ) AS page ON true
  ORDER BY page.position DESC`;
}

/** How many rows a page reads to find matching ones. */
export const MAX_ROWS_READ = 20_000;

/**
 * Max time between the start of a transaction that stores messages (their `received_at`) and the assignment of their positions.
 * If a row is older than a time by more than this, no row with a lower position was received after that time; unless the row
 * was scheduled: its position was assigned when it became due.
 */
const LATEST_POSITION = `interval '2 minutes'`;

/** Parameter names in the statement ($n). */
interface Walk {
  readonly below: string;
  readonly max: string;
  readonly key: string | undefined;
  readonly since: string | undefined;
}

/** Descending by position: all messages, those that an index has by position (`which`), or those of a key. */
export function findByPosition(which: string, { below, max, key, since }: Walk): string {
  const [range, order] = key
    ? [
        `(key, position) > (${key}::text, 0) AND (key, position) < (${key}::text, ${below}::bigint)`,
        'key DESC, position DESC',
      ]
    : [`position < ${below}::bigint`, 'position DESC'];
  const past = since
    ? `due_at IS NULL AND received_at < ${since}::timestamptz - ${LATEST_POSITION}`
    : 'false';
  return `
  scanned AS MATERIALIZED (
    SELECT position, row_number() OVER (ORDER BY ${order}) = ${max}::integer AS last, ${past} AS past
    FROM inbox WHERE ${range} AND ${which} ORDER BY ${order} LIMIT ${max}::integer
  )`;
}

/**
 * The newest ready rows of each lane, by the index of the claims: the planner would use an index over positions alone for
 * claims too, and every message would have to maintain it.
 */
export function findReady({ below, lanes, max }: Record<'below' | 'lanes' | 'max', string>): string {
  return `
  scanned AS MATERIALIZED (
    SELECT ready.position, ready.nth = ${max}::integer AS last, false AS past
    FROM unnest(${lanes}::integer[]) AS asked(lane)
    CROSS JOIN LATERAL (
      SELECT position, row_number() OVER (ORDER BY lane DESC, position DESC) AS nth FROM inbox
      WHERE (lane, position) > (asked.lane, 0) AND (lane, position) < (asked.lane, ${below}::bigint)
        AND settled_at IS NULL AND waits IS NULL
      ORDER BY lane DESC, position DESC LIMIT ${max}::integer
    ) AS ready
  )`;
}

/** At least this many rows are read of each held key, however many held keys there are; a page may then be shorter than possible. */
const MIN_OF_A_KEY = 10;

const HELD = `settled_at IS NULL AND waits = 'held'`;

/** The newest rows of each held key, by a loose scan from key to key over the index of held rows. */
export function findHeld({ below, max }: Record<'below' | 'max', string>): string {
  return `
  held(lane, key) AS (
    (SELECT lane, key FROM inbox WHERE ${HELD} ORDER BY lane, key, position LIMIT 1)
    UNION ALL
    SELECT next.lane, next.key FROM held
    CROSS JOIN LATERAL (
      SELECT lane, key FROM inbox WHERE ${HELD} AND (inbox.lane, inbox.key) > (held.lane, held.key)
      ORDER BY lane, key, position LIMIT 1
    ) AS next
  ),
  ${newestOfKeys(`SELECT GREATEST(${MIN_OF_A_KEY}, LEAST(${max}::integer, ${MAX_ROWS_READ} / count(*))) FROM held`, below)}`;
}

/** The same for one key. */
export function findHeldOfKey({ below, lane, key }: Record<'below' | 'lane' | 'key', string>): string {
  return `
  held(lane, key) AS (SELECT ${lane}::integer, ${key}::text),
  ${newestOfKeys(`SELECT ${MAX_ROWS_READ}`, below)}`;
}

function newestOfKeys(max: string, below: string): string {
  return `
  scanned AS MATERIALIZED (
    SELECT late.position, late.nth = (${max}) AS last, false AS past
    FROM held
    CROSS JOIN LATERAL (
      SELECT position, row_number() OVER (ORDER BY lane DESC, key DESC, position DESC) AS nth FROM inbox
      WHERE inbox.lane = held.lane AND inbox.key = held.key AND inbox.position < ${below}::bigint AND ${HELD}
      ORDER BY lane DESC, key DESC, position DESC LIMIT (${max})
    ) AS late
  )`;
}

/** The rows of the largest claim that a setting allows, and the holds that one claim reads. */
const MAX_MARK = 2_000;
const MAX_HOLDS = 64;

/** Claimed rows are at the head of a leased lane, or of a key whose hold is due: all of those are read. */
export function findProcessing({ below }: { below: string }): string {
  return `
  leased AS MATERIALIZED (SELECT lane FROM lane WHERE queue = 'inbox' AND leased_until > '-infinity'),
  scanned AS MATERIALIZED (
    SELECT marked.position, false AS last, false AS past FROM (
      SELECT head.position, head.status FROM leased
      CROSS JOIN LATERAL (
        SELECT position, status FROM inbox
        WHERE (lane, position) > (leased.lane, 0) AND (lane, position) < (leased.lane, ${below}::bigint)
          AND settled_at IS NULL AND waits IS NULL
        ORDER BY lane, position LIMIT ${MAX_MARK}
      ) AS head
      UNION ALL
      SELECT late.position, late.status FROM leased
      CROSS JOIN LATERAL (
        SELECT key FROM hold WHERE hold.queue = 'inbox' AND hold.lane = leased.lane AND hold.until >= '-infinity'
        ORDER BY hold.queue, hold.lane, hold.until LIMIT ${MAX_HOLDS}
      ) AS hold
      CROSS JOIN LATERAL (
        SELECT position, status FROM inbox
        WHERE inbox.lane = leased.lane AND inbox.key = hold.key AND inbox.position < ${below}::bigint AND ${HELD}
        ORDER BY lane, key, position LIMIT ${MAX_MARK}
      ) AS late
    ) AS marked
    WHERE marked.status = 'processing'
  )`;
}
