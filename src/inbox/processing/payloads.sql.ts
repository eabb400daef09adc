/** inbox.payloads — $1 positions */
export const PAYLOADS =
  'SELECT position, payload::text AS payload FROM inbox WHERE position = ANY ($1::bigint[])';
