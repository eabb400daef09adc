import { withinBytes } from '../page-bytes.ts';

export const LIVE_KEYS = `SELECT id, name, scopes, sources, keys, secret_hash FROM api_key WHERE revoked_at IS NULL`;

export const ALL_KEYS = `${withinBytes(
  `SELECT id, name, scopes, sources, keys, created_at, created_by, revoked_at FROM api_key
   WHERE $1::text IS NULL OR id > $1 ORDER BY id LIMIT $2`,
  'id',
)} ORDER BY id`;

export const INSERT_KEY = `
  INSERT INTO api_key (id, name, scopes, secret_hash, created_by, sources, keys)
  VALUES ($1, $2, $3, $4, $5, $6, $7)
  ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING created_at`;

/** A key that is revoked twice keeps its first revocation time. */
export const REVOKE_KEY = `
  WITH before AS (SELECT id, revoked_at FROM api_key WHERE id = $1 FOR UPDATE)
  UPDATE api_key SET revoked_at = COALESCE(before.revoked_at, now()) FROM before WHERE api_key.id = before.id
  RETURNING api_key.name, before.revoked_at IS NULL AS first`;
