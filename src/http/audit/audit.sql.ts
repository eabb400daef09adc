import { withinBytes } from '../page-bytes.ts';

/** audit.record — $1 by, $2 action, $3 target, $4 filter, $5 count, $6 reason */
export const RECORD = `
  INSERT INTO audit (by, action, target, filter, count, reason) VALUES ($1, $2, $3, $4, $5, $6)`;

/** audit.list — newest first. $1 limit, $2 before id, $3 since, $4 action as a LIKE pattern; each may be null */
export const LIST = `${withinBytes(
  `SELECT id, at, by, action, target, filter, count, reason FROM audit
  WHERE ($2::bigint IS NULL OR id < $2) AND ($3::timestamptz IS NULL OR at >= $3)
    AND ($4::text IS NULL OR action LIKE $4)
  ORDER BY id DESC LIMIT $1`,
  'id DESC',
)} ORDER BY id DESC`;

/** audit.remove — the oldest entries that are past their retention. $1 age in ms, $2 max rows */
export const REMOVE = `
  DELETE FROM audit WHERE id IN (
    SELECT id FROM audit WHERE at < now() - $1::bigint * interval '1 millisecond' ORDER BY at LIMIT $2)`;
