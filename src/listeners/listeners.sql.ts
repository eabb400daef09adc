import { prepared } from '../database/prepared.ts';
import { withinBytes } from '../http/page-bytes.ts';

/** An arbitrary constant: one writer of listeners at a time, so that their revisions grow in commit order. */
const WRITER_LOCK = '5107205318272';

/** listener.writer — first in every transaction that changes a listener. */
export const TAKE_TURN = `SELECT pg_advisory_xact_lock(${WRITER_LOCK})`;

/** listener.revision — shows whether anything has changed. */
export const REVISION = prepared(`SELECT COALESCE(max(revision), 0) AS revision, now() AS now FROM listener`);

/** listener.current — fails by a division by zero if something has changed since. $1 revision */
export const STILL_CURRENT = prepared(
  `SELECT 1 / (COALESCE(max(revision), 0) <= $1::bigint)::integer FROM listener`,
);

const COLUMNS = `number, name, revision, definition, lanes, sealed, secret_from, origin, state, state_reason, state_since, state_by,
  created_at, updated_at, deleted_at`;

export const LIVE_LISTENERS = `SELECT ${COLUMNS} FROM listener WHERE deleted_at IS NULL ORDER BY number`;

export const DELETED_NUMBERS = `SELECT number FROM listener WHERE deleted_at IS NOT NULL`;

export const LISTENER = `SELECT ${COLUMNS} FROM listener WHERE name = $1 AND deleted_at IS NULL`;

/** listener.any — also a deleted one. */
export const ANY_LISTENER = `SELECT ${COLUMNS} FROM listener WHERE name = $1`;

/** listener.page — by name. $1 after, $2 limit */
export const LISTENERS_PAGE = `${withinBytes(
  `SELECT ${COLUMNS} FROM listener WHERE deleted_at IS NULL AND name > $1 ORDER BY name LIMIT $2`,
  'name',
)} ORDER BY name`;

const NEXT_REVISION = `(SELECT COALESCE(max(revision), 0) + 1 FROM listener)`;

/** $1 name, $2 definition, $3 types, $4 lanes, $5 sealed, $6 secret from, $7 origin, $8 by */
export const INSERT_LISTENER = `
  INSERT INTO listener (revision, name, definition, types, lanes, sealed, secret_from, origin, state_by, created_by, updated_by)
  VALUES (${NEXT_REVISION}, $1, $2, $3, $4, $5, $6, $7, $8, $8, $8)
  RETURNING ${COLUMNS}`;

/** The lanes of a listener that is pulled are leased for ever: no replica sends from them. */
const LEASED_UNTIL = (pulled: string) =>
  `CASE WHEN ${pulled} THEN 'infinity' ELSE '-infinity' END::timestamptz`;

/** listener.lanes — $1 number, $2 lanes, $3 whether it is pulled */
export const INSERT_LANES = `
  INSERT INTO lane (queue, lane, leased_until)
  SELECT 'outbox', $1::integer * 256 + generate_series(0, $2::integer - 1), ${LEASED_UNTIL('$3::boolean')}`;

/** listener.lockLanes — until the transaction ends, nothing is claimed from them or handed out. $1 number */
export const LOCK_LANES = `
  SELECT FROM lane WHERE queue = 'outbox' AND lane BETWEEN $1::integer * 256 AND $1::integer * 256 + 255
  ORDER BY lane FOR NO KEY UPDATE`;

/** listener.pending — whether it has deliveries that are not settled. $1 number */
export const HAS_PENDING = `
  SELECT FROM outbox
  WHERE lane BETWEEN $1::integer * 256 AND $1::integer * 256 + 255 AND settled_at IS NULL AND (waits IS NULL OR waits = 'held')
  LIMIT 1`;

/** listener.setLanes — for the other mode, in locked lanes. $1 number, $2 whether it is pulled */
export const SET_LANES = `
  UPDATE lane SET leased_until = ${LEASED_UNTIL('$2::boolean')}, token = NULL, replica = NULL, crashes = 0
  WHERE queue = 'outbox' AND lane BETWEEN $1::integer * 256 AND $1::integer * 256 + 255`;

/** listener.replace — its state stays as it is. $1 name, $2 definition, $3 types, $4 sealed, $5 secret from, $6 by */
export const REPLACE_LISTENER = `
  UPDATE listener SET revision = ${NEXT_REVISION}, definition = $2, types = $3, sealed = $4, secret_from = $5,
         updated_at = now(), updated_by = $6
  WHERE name = $1
  RETURNING ${COLUMNS}`;

/** listener.bringBack — a deleted one starts over, with its number and its pending deliveries. As above, $7 origin */
export const BRING_BACK_LISTENER = `
  UPDATE listener SET revision = ${NEXT_REVISION}, definition = $2, types = $3, sealed = $4, secret_from = $5,
         origin = $7, state = 'active', state_reason = NULL, state_since = now(), state_by = $6,
         created_at = now(), created_by = $6, updated_at = now(), updated_by = $6, deleted_at = NULL
  WHERE name = $1
  RETURNING ${COLUMNS}`;

/** listener.delete — $1 name, $2 by */
export const DELETE_LISTENER = `
  UPDATE listener SET revision = ${NEXT_REVISION}, deleted_at = now(), updated_at = now(), updated_by = $2
  WHERE name = $1 AND deleted_at IS NULL`;

/**
 * listener.setState — only from one of the given states. $1 name, $2 state, $3 reason, $4 by, $5 from which states, $6 at which
 * revision, or null
 */
export const SET_STATE = `
  UPDATE listener SET revision = ${NEXT_REVISION}, state = $2, state_reason = $3, state_since = now(), state_by = $4
  WHERE name = $1 AND deleted_at IS NULL AND state = ANY ($5::text[]) AND ($6::bigint IS NULL OR revision = $6)`;

/** listener.reseal — unless it was changed meanwhile. $1 name, $2 sealed, $3 sealed before, $4 definition */
export const RESEAL_LISTENER = `
  UPDATE listener SET revision = ${NEXT_REVISION}, sealed = $2, definition = $4 WHERE name = $1 AND sealed = $3`;

/** listener.forgetUrls — of deleted listeners, as the previous version wrote them: bringing one back defines its URL again. */
export const FORGET_URLS = `
  UPDATE listener SET definition = definition - 'url' WHERE deleted_at IS NOT NULL AND definition ? 'url'`;

/** listener.health — of those that something keeps from receiving now, or whose circuit is open. $1 numbers */
export const HEALTH = `
  SELECT listener.number AS listener, COALESCE(gate.openings, 0) AS openings, gate.reason,
         CASE WHEN gate.closed_until > clock_timestamp() THEN gate.closed_until END AS closed_until,
         CASE WHEN rate.next_at > clock_timestamp() THEN rate.next_at END AS limited_until
  FROM unnest($1::integer[]) AS listener(number)
  LEFT JOIN gate ON gate.listener = listener.number LEFT JOIN rate ON rate.listener = listener.number`;
