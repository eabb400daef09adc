import { utc } from '../../database/utc.ts';
import { ATTEMPTS_OF } from './delivery-view.ts';

/** fanOut.read — the deliveries of a message, each with its attempts. $1 position in the inbox */
export const READ_DELIVERIES = `
  SELECT outbox.id, listener.name AS listener, outbox.status, outbox.attempt, outbox.error, outbox.sequence,
         outbox.created_at, outbox.settled_at, outbox.answered, outbox.duration_ms, outbox.excerpt,
         (SELECT json_build_object('kind', kind, 'by', created_by, 'at', ${utc('created_at')}, 'reason', reason)
          FROM ruling WHERE ruling.id = outbox.ruling) AS ruling,
         ${ATTEMPTS_OF('outbox.position')}
  FROM outbox LEFT JOIN listener ON listener.number = outbox.listener
  WHERE outbox.message = $1 ORDER BY outbox.position LIMIT 1000`;

/** fanOut.pending — the pending deliveries of a message, with everything that each may wait for. $1 position in the inbox */
export const PENDING_DELIVERIES = `
  SELECT outbox.id, listener.name AS listener, outbox.status, listener.state, listener.state_reason,
         listener.deleted_at IS NOT NULL AS deleted, gate.closed_until, gate.reason AS gate_reason,
         hold.reason AS hold_reason,
         CASE WHEN hold.until = 'infinity' THEN 'infinity' ELSE ${utc('hold.until')} END AS hold_until, lane.replica
  FROM outbox
  LEFT JOIN listener ON listener.number = outbox.listener
  LEFT JOIN gate ON gate.listener = outbox.listener AND gate.closed_until > clock_timestamp()
  LEFT JOIN hold ON hold.queue = 'outbox' AND hold.lane = outbox.lane AND hold.key = outbox.key
  LEFT JOIN lane ON lane.queue = 'outbox' AND lane.lane = outbox.lane AND lane.leased_until > clock_timestamp()
  WHERE outbox.message = $1 AND outbox.settled_at IS NULL ORDER BY outbox.position LIMIT 1000`;
