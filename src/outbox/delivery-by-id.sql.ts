import { utc } from '../database/utc.ts';
import { ATTEMPT, ATTEMPTS_OF, JOIN_LEASE, STATUS } from './fan-out/delivery-view.ts';

const DELIVERY = `
  SELECT outbox.position, outbox.lane, outbox.key AS order_key, outbox.listener AS listener_number, outbox.id,
         listener.name AS listener, listener.deleted_at IS NOT NULL AS deleted, ${STATUS} AS status, ${ATTEMPT} AS attempt,
         outbox.error, outbox.sequence, outbox.created_at, outbox.settled_at, outbox.answered, outbox.duration_ms, outbox.excerpt,
         (SELECT json_build_object('kind', kind, 'by', created_by, 'at', ${utc('created_at')}, 'reason', reason)
          FROM ruling WHERE ruling.id = outbox.ruling) AS ruling,
         ${ATTEMPTS_OF('outbox.position')}, inbox.id AS message, inbox.source, inbox.type, inbox.key
  FROM outbox LEFT JOIN listener ON listener.number = outbox.listener LEFT JOIN inbox ON inbox.position = outbox.message
  ${JOIN_LEASE}`;

/**
 * delivery.find — one that is or was a dead letter, or that belongs to the message: these are in an index. One over the ids of
 * all deliveries would cost every fan-out. $1 id, $2 id of the message or null
 */
export const FIND_DELIVERY = `${DELIVERY}
  WHERE outbox.position IN (
    SELECT lapsed.position FROM outbox AS lapsed
    WHERE lapsed.id = $1::uuid AND (lapsed.lapsed_at IS NOT NULL OR lapsed.ruling IS NOT NULL)
    UNION ALL
    SELECT own.position FROM inbox AS message JOIN outbox AS own ON own.message = message.position
    WHERE message.id = $2::text AND own.id = $1::uuid)
  LIMIT 1`;

/** delivery.findNewest — among the deliveries that were created last. $1 id, $2 how many of them */
export const FIND_NEWEST = `${DELIVERY}
  WHERE outbox.position IN (
    SELECT newest.position FROM (SELECT position, id FROM outbox ORDER BY position DESC LIMIT $2) AS newest
    WHERE newest.id = $1::uuid)
  LIMIT 1`;
