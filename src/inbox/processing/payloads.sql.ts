/**
 * Stored in its row, a payload comes with the claim. Beyond this it lies apart, compressed: it is left there, and its size is
 * told, so that memory can be kept in bounds before anything is loaded (measured for 512 of 4 KB: 3 ms; for their
 * transfer 17).
 */
const SMALL = 'pg_column_size(payload) <= 2000';

/** JSON text is never empty. */
export const PAYLOAD_IF_SMALL = `CASE WHEN ${SMALL} THEN payload::text ELSE '' END AS payload,
  CASE WHEN ${SMALL} THEN 0 ELSE octet_length(payload::text) END AS bytes`;

/** inbox.payloads — $1 positions */
export const PAYLOADS =
  'SELECT position, payload::text AS payload FROM inbox WHERE position = ANY ($1::bigint[])';
