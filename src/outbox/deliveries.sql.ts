import { utc } from '../database/utc.ts';
import { withinBytes } from '../http/page-bytes.ts';
import { ATTEMPT, JOIN_LEASE, STATUS } from './fan-out/delivery-view.ts';

/** The HTTP status of the last response: of the attempt that settled it, else of the last one that failed. */
export const LAST_STATUS = `COALESCE(outbox.answered, (
  SELECT last.status FROM attempt AS last WHERE last.delivery = outbox.position
  ORDER BY last.delivery DESC, last.at DESC LIMIT 1))`;

/** deliveries.list — of one listener, newest first. Contains only the requested conditions. $1 limit, $2 listener */
export function listDeliveries(conditions: readonly string[]): string {
  const page = `
    SELECT outbox.position, outbox.id, listener.name AS listener, ${STATUS} AS status, ${ATTEMPT} AS attempt, outbox.error,
           outbox.sequence, outbox.created_at, outbox.settled_at, outbox.answered, outbox.duration_ms, NULL::text AS excerpt,
           (SELECT json_build_object('kind', kind, 'by', created_by, 'at', ${utc('created_at')}, 'reason', reason)
            FROM ruling WHERE ruling.id = outbox.ruling) AS ruling,
           inbox.id AS message, inbox.type, inbox.key, '[]'::json AS attempts, 0 AS attempts_total
    FROM outbox JOIN listener ON listener.number = outbox.listener LEFT JOIN inbox ON inbox.position = outbox.message
         ${JOIN_LEASE}
    WHERE outbox.listener = $2 ${conditions.map((condition) => `AND ${condition}`).join(' ')}
    ORDER BY outbox.position DESC LIMIT $1`;
  return `${withinBytes(page, 'position DESC')} ORDER BY position DESC`;
}
