import { withinBytes } from '../http/page-bytes.ts';

/** source.define — $1 name, $2 kind */
export const DEFINE = `
  INSERT INTO source (name, kind) VALUES ($1, $2)
  ON CONFLICT (name) DO UPDATE SET kind = EXCLUDED.kind, place = CASE WHEN source.kind = EXCLUDED.kind THEN source.place END
  WHERE source.kind <> EXCLUDED.kind`;

/** source.lease — takes a free lease, or renews its own. $1 name, $2 token, $3 ms, $4 replica */
export const LEASE = `
  UPDATE source SET token = $2, leased_until = clock_timestamp() + $3 * interval '1 millisecond', replica = $4
  WHERE name = $1 AND (token = $2 OR leased_until < clock_timestamp())
  RETURNING place AS position`;

/** source.release — $1 name, $2 token */
export const RELEASE = `
  UPDATE source SET leased_until = '-infinity', token = NULL, replica = NULL, state = 'waiting'
  WHERE name = $1 AND token = $2`;

/** source.stored — $1 name, $2 token, $3 position or null, $4 accepted, $5 duplicates */
export const STORED = `
  UPDATE source SET place = COALESCE($3::jsonb, place), accepted = accepted + $4, duplicates = duplicates + $5,
         stored_at = clock_timestamp()
  WHERE name = $1 AND token = $2`;

/** source.state — `since` stays while the state does. $1 name, $2 token, $3 state, $4 error */
export const SET_STATE = `
  UPDATE source SET state = $3, error = $4, since = CASE WHEN state = $3 THEN since ELSE clock_timestamp() END
  WHERE name = $1 AND token = $2 AND (state, error) IS DISTINCT FROM ($3, $4)`;

/** source.delete — $1 name */
export const DELETE = 'DELETE FROM source WHERE name = $1 AND leased_until < clock_timestamp()';

/** source.refuse — keeps what cannot be accepted; once, though the broker may hand it out again. $1 name, $2 place, $3 reason, $4 headers, $5 body */
export const REFUSE = `
  INSERT INTO source_refusal (source, place, reason, headers, body) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (source, place) DO NOTHING`;

/** source.refused — how many are kept, counted up to the max. $1 name, $2 max */
export const COUNT_REFUSED = `
  SELECT count(*)::int AS count FROM (SELECT FROM source_refusal WHERE source = $1 LIMIT $2) AS kept`;

const REFUSED_OF =
  '(SELECT count(*)::int FROM source_refusal WHERE source_refusal.source = source.name) AS refused';

/** source.list — at most as many as a file defines. $1 name; null: all */
export const LIST = `
  SELECT name, kind, CASE WHEN leased_until < clock_timestamp() THEN 'waiting' ELSE state END AS state, error, since,
         CASE WHEN leased_until >= clock_timestamp() THEN replica END AS replica, accepted, duplicates, stored_at, ${REFUSED_OF}
  FROM source WHERE ($1::text IS NULL OR name = $1) ORDER BY name LIMIT 1000`;

/** source.refusals — newest first. $1 name, $2 before number, $3 max rows, $4 max bytes of an excerpt */
export const REFUSALS = `${withinBytes(
  `SELECT number, place, reason, headers, at, octet_length(body) AS size, substr(body, 1, $4) AS excerpt
   FROM source_refusal WHERE source = $1 AND number < $2 ORDER BY number DESC LIMIT $3`,
  'number DESC',
)} ORDER BY number DESC`;

/** source.refusal — $1 name, $2 number */
export const REFUSAL_BODY = 'SELECT body FROM source_refusal WHERE source = $1 AND number = $2';

/** source.discard — $1 name, $2 numbers; null: all */
export const DISCARD = `
  DELETE FROM source_refusal WHERE source = $1 AND ($2::bigint[] IS NULL OR number = ANY ($2::bigint[]))`;
