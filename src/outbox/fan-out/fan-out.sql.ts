import { prepared } from '../../database/prepared.ts';
import { utc } from '../../database/utc.ts';
import { withinBytes } from '../../http/page-bytes.ts';
import { ATTEMPT, ATTEMPTS_OF, JOIN_LEASE, STATUS } from './delivery-view.ts';

/**
 * fanOut.write — one delivery per message and listener of its type, in the order in which the messages were handled, with
 * its sequence number for that listener and key. The numbers are counted in a table of their own, one statement for the
 * whole batch; only the owner of a key's lane changes its row. A message without a key has the number 1.
 * Where order does not matter, each delivery is its own key and goes to any lane; so is that of a message without a key.
 * $1 positions, $2 keys, $3 whether there is no key, $4 lanes, $5 types, $6 bytes of the messages; $7 types, $8 listeners, $9 lanes,
 * $10 ordered of the targets
 */
export const WRITE_DELIVERIES = prepared(`
  WITH pending AS MATERIALIZED (
    SELECT message.position, message.key, message.keyless, message.ordinal,
           message.bytes, target.listener, target.ordered,
           target.listener * 256 + (CASE WHEN target.ordered THEN message.lane ELSE message.position END % target.lanes)::integer AS lane,
           row_number() OVER same_key AS nth, count(*) OVER all_of_key AS total
    FROM unnest($1::bigint[], $2::text[], $3::boolean[], $4::integer[], $5::text[], $6::integer[])
           WITH ORDINALITY AS message(position, key, keyless, lane, type, bytes, ordinal)
    JOIN unnest($7::text[], $8::integer[], $9::integer[], $10::boolean[]) AS target(type, listener, lanes, ordered)
      ON target.type = message.type
    WINDOW all_of_key AS (PARTITION BY target.listener, message.key, message.keyless),
           same_key AS (all_of_key ORDER BY message.ordinal)
  ),
  counted AS (
    INSERT INTO delivery_sequence (listener, key, last)
    SELECT listener, key, max(total) FROM pending WHERE NOT keyless GROUP BY listener, key
    ON CONFLICT (listener, key) DO UPDATE SET last = delivery_sequence.last + EXCLUDED.last
    RETURNING listener, key, last
  ),
  delivery AS (
    SELECT pending.*, gen_random_uuid() AS id, COALESCE(counted.last - pending.total + pending.nth, 1) AS number
    FROM pending LEFT JOIN counted ON NOT pending.keyless AND counted.listener = pending.listener AND counted.key = pending.key
  )
  INSERT INTO outbox (id, listener, lane, message, key, sequence, bytes)
  SELECT id, listener, lane, position, CASE WHEN ordered AND NOT keyless THEN key ELSE id::text END, number, bytes
  FROM delivery ORDER BY ordinal, listener`);

/** fanOut.read — the deliveries of a message, each with its attempts, up to the size of a page. $1 position in the inbox */
export const READ_DELIVERIES = `${withinBytes(
  `SELECT outbox.position, count(*) OVER () AS total_deliveries, outbox.id, listener.name AS listener, ${STATUS} AS status, ${ATTEMPT} AS attempt, outbox.error, outbox.sequence,
         outbox.created_at, outbox.settled_at, outbox.answered, outbox.duration_ms, outbox.excerpt,
         (SELECT json_build_object('kind', kind, 'by', created_by, 'at', ${utc('created_at')}, 'reason', reason)
          FROM ruling WHERE ruling.id = outbox.ruling) AS ruling,
         ${ATTEMPTS_OF('outbox.position')}
  FROM outbox LEFT JOIN listener ON listener.number = outbox.listener ${JOIN_LEASE}
  WHERE outbox.message = $1 ORDER BY outbox.position LIMIT 1000`,
  'position',
)} ORDER BY position`;

/** fanOut.pending — the pending deliveries of a message, with everything that each may wait for. $1 position in the inbox */
export const PENDING_DELIVERIES = `
  SELECT outbox.id, listener.name AS listener, ${STATUS} AS status, listener.state, listener.state_reason,
         listener.definition ->> 'mode' IS NOT DISTINCT FROM 'pull' AS pulled, lease.expires_at AS leased_until,
         (SELECT max(other.expires_at) FROM pull_lease AS other
          WHERE other.lane = outbox.lane AND other.key = outbox.key) AS key_leased_until,
         listener.deleted_at IS NOT NULL AS deleted, gate.closed_until, gate.reason AS gate_reason,
         hold.reason AS hold_reason,
         CASE WHEN hold.until = 'infinity' THEN 'infinity' ELSE ${utc('hold.until')} END AS hold_until, lane.replica
  FROM outbox
  LEFT JOIN listener ON listener.number = outbox.listener
  ${JOIN_LEASE}
  LEFT JOIN gate ON gate.listener = outbox.listener AND gate.closed_until > clock_timestamp()
  LEFT JOIN hold ON hold.queue = 'outbox' AND hold.lane = outbox.lane AND hold.key = outbox.key
  LEFT JOIN lane ON lane.queue = 'outbox' AND lane.lane = outbox.lane AND lane.leased_until > clock_timestamp()
  WHERE outbox.message = $1 AND outbox.settled_at IS NULL ORDER BY outbox.position LIMIT 1000`;
