const SHOWN = `inbox.position, inbox.id, inbox.source, inbox.type, inbox.key, inbox.status, inbox.attempt, inbox.error,
  inbox.headers, inbox.occurred_at, inbox.received_at, inbox.due_at, inbox.expires_at, inbox.settled_at,
  inbox.producer, inbox.sequence,
  (SELECT winner.id FROM inbox AS winner WHERE winner.position = inbox.superseded_by) AS superseded_by,
  (SELECT json_build_object('kind', kind, 'by', created_by, 'at', created_at, 'reason', reason)
   FROM ruling WHERE ruling.id = inbox.ruling) AS ruling`;

/** messages.find — by id; several sources may have used the same one. */
export const FIND_MESSAGES = `
  SELECT ${SHOWN}, inbox.payload::text AS payload FROM inbox
  WHERE inbox.id = $1 AND ($2::text IS NULL OR inbox.source = $2)
  ORDER BY inbox.position LIMIT 20`;

/** messages.list — newest first; only the conditions asked for are written, each with its own parameter. */
export function listMessages(conditions: readonly string[]): string {
  const where = conditions.length ? `WHERE ${conditions.join(' AND ')}` : '';
  return `SELECT ${SHOWN} FROM inbox ${where} ORDER BY inbox.position DESC LIMIT $1`;
}
