import { utc } from '../database/utc.ts';
import { withinBytes } from '../http/page-bytes.ts';

const SHOWN = `inbox.position, inbox.id, inbox.source, inbox.type, inbox.key, inbox.status, inbox.attempt, inbox.error,
  inbox.headers, inbox.occurred_at, inbox.received_at, inbox.due_at, inbox.expires_at, inbox.settled_at,
  inbox.producer, inbox.sequence,
  (SELECT winner.id FROM inbox AS winner WHERE winner.position = inbox.superseded_by) AS superseded_by,
  (SELECT json_build_object('kind', kind, 'by', created_by, 'at', ${utc('created_at')}, 'reason', reason)
   FROM ruling WHERE ruling.id = inbox.ruling) AS ruling`;

/** messages.find — by id; several sources may have used the same one. */
export const FIND_MESSAGES = `
  SELECT ${SHOWN}, inbox.payload::text AS payload FROM inbox
  WHERE inbox.id = $1 AND ($2::text IS NULL OR inbox.source = $2)
  ORDER BY inbox.position LIMIT 20`;

/**
 * messages.list — newest first, among the rows that `look` finds; only the conditions asked for are written, each with its
 * own parameter. What is wanted may be rare: a page looks at so many rows and no more, and answers down to where it has seen
 * them all (`edge`; null: to the end). There is always a row; without a message it has no position.
 * $1 most messages
 */
export function listMessages(look: string, conditions: readonly string[]): string {
  return `
  WITH RECURSIVE ${look},
  edge AS MATERIALIZED (
    SELECT CASE WHEN bool_or(past) THEN NULL ELSE max(position) FILTER (WHERE last) END AS position FROM looked
  )
  SELECT edge.position AS edge, page.* FROM edge LEFT JOIN LATERAL (${withinBytes(
    `SELECT ${SHOWN} FROM (SELECT position FROM looked ORDER BY position DESC) AS looked
    CROSS JOIN LATERAL (
      SELECT * FROM inbox WHERE inbox.position = looked.position ${conditions.map((one) => `AND ${one}`).join(' ')} LIMIT 1
    ) AS inbox
    WHERE (looked.position >= edge.position) IS NOT FALSE
    ORDER BY looked.position DESC LIMIT $1`,
    'position DESC',
  )}
  ) AS page ON true
  ORDER BY page.position DESC`;
}

/** How many rows a page looks at for those that are wanted. */
export const MAX_LOOKED_AT = 20_000;

/**
 * From the beginning of a transaction that stores messages, which is when they were received, to their positions. Below a
 * row that is older by more than this nothing was received later; unless the row was scheduled: its position is as young
 * as the time it became due.
 */
const LATEST_POSITION = `interval '2 minutes'`;

/** Parameters, by the name they have in the statement. */
interface Walk {
  readonly below: string;
  readonly most: string;
  readonly key: string | undefined;
  readonly since: string | undefined;
}

/** Down the positions: of all messages, of those `which` an index has by position, or of a key. */
export function lookDown(which: string, { below, most, key, since }: Walk): string {
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
  looked AS MATERIALIZED (
    SELECT position, row_number() OVER (ORDER BY ${order}) = ${most}::integer AS last, ${past} AS past
    FROM inbox WHERE ${range} AND ${which} ORDER BY ${order} LIMIT ${most}::integer
  )`;
}

/**
 * The youngest of each lane that are ready, by the index of the claims: one over positions alone would lure their planner,
 * and cost every message.
 */
export function lookInLanes({ below, lanes, most }: Record<'below' | 'lanes' | 'most', string>): string {
  return `
  looked AS MATERIALIZED (
    SELECT ready.position, ready.nth = ${most}::integer AS last, false AS past
    FROM unnest(${lanes}::integer[]) AS asked(lane)
    CROSS JOIN LATERAL (
      SELECT position, row_number() OVER (ORDER BY lane DESC, position DESC) AS nth FROM inbox
      WHERE (lane, position) > (asked.lane, 0) AND (lane, position) < (asked.lane, ${below}::bigint)
        AND settled_at IS NULL AND waits IS NULL
      ORDER BY lane DESC, position DESC LIMIT ${most}::integer
    ) AS ready
  )`;
}

/** Of a key with many others of its kind beside it; then a page may be shorter than it could be. */
const MIN_OF_A_KEY = 10;

const HELD = `settled_at IS NULL AND waits = 'held'`;

/** The youngest of each key that is held, from key to key over the index of the held. */
export function lookBehindHolds({ below, most }: Record<'below' | 'most', string>): string {
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
  ${youngestOfKeys(`SELECT GREATEST(${MIN_OF_A_KEY}, LEAST(${most}::integer, ${MAX_LOOKED_AT} / count(*))) FROM held`, below)}`;
}

/** The same of one key. */
export function lookBehindHold({ below, lane, key }: Record<'below' | 'lane' | 'key', string>): string {
  return `
  held(lane, key) AS (SELECT ${lane}::integer, ${key}::text),
  ${youngestOfKeys(`SELECT ${MAX_LOOKED_AT}`, below)}`;
}

function youngestOfKeys(most: string, below: string): string {
  return `
  looked AS MATERIALIZED (
    SELECT late.position, late.nth = (${most}) AS last, false AS past
    FROM held
    CROSS JOIN LATERAL (
      SELECT position, row_number() OVER (ORDER BY lane DESC, key DESC, position DESC) AS nth FROM inbox
      WHERE inbox.lane = held.lane AND inbox.key = held.key AND inbox.position < ${below}::bigint AND ${HELD}
      ORDER BY lane DESC, key DESC, position DESC LIMIT (${most})
    ) AS late
  )`;
}

/** As deep as the largest claim that a setting allows, and as many holds as one claim takes. */
const MAX_MARK = 2_000;
const MAX_HOLDS = 64;

/** What is marked stands at the head of a leased lane, or of a key whose hold is due: all of it is looked at. */
export function lookInHand({ below }: { below: string }): string {
  return `
  leased AS MATERIALIZED (SELECT lane FROM lane WHERE queue = 'inbox' AND leased_until > '-infinity'),
  looked AS MATERIALIZED (
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
