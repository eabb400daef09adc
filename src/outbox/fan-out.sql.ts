import { kept } from '../database/kept.ts';
import { ATTEMPTS_OF } from './attempts.ts';

/**
 * fanOut.write — one delivery per message and listener of its type, in the order the messages were handled, with the
 * number each has for that listener and key. The numbers are counted in a table of their own, one statement for the
 * whole batch; only the holder of a key's lane touches its row. A message without a key is its own key, and number 1.
 * Where order does not matter, a delivery is its own key and takes any lane.
 * $1 positions, $2 keys, $3 ids, $4 lanes, $5 types, $6 bytes of the messages; $7 types, $8 listeners, $9 lanes,
 * $10 ordered of the targets
 */
export const WRITE_DELIVERIES = kept(`
  WITH owed AS MATERIALIZED (
    SELECT message.position, message.key, message.key = message.id AS keyless, message.ordinal,
           message.bytes, target.listener, target.ordered,
           target.listener * 256 + (CASE WHEN target.ordered THEN message.lane ELSE message.position END % target.lanes)::integer AS lane,
           row_number() OVER same_key AS nth, count(*) OVER (PARTITION BY target.listener, message.key) AS total
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::integer[])
           WITH ORDINALITY AS message(position, key, id, lane, type, bytes, ordinal)
    JOIN unnest($7::text[], $8::integer[], $9::integer[], $10::boolean[]) AS target(type, listener, lanes, ordered)
      ON target.type = message.type
    WINDOW same_key AS (PARTITION BY target.listener, message.key ORDER BY message.ordinal)
  ),
  counted AS (
    INSERT INTO delivery_sequence (listener, key, last)
    SELECT listener, key, max(total) FROM owed WHERE NOT keyless GROUP BY listener, key
    ON CONFLICT (listener, key) DO UPDATE SET last = delivery_sequence.last + EXCLUDED.last
    RETURNING listener, key, last
  ),
  delivery AS (
    SELECT owed.*, gen_random_uuid() AS id, COALESCE(counted.last - owed.total + owed.nth, 1) AS number
    FROM owed LEFT JOIN counted USING (listener, key)
  )
  INSERT INTO outbox (id, listener, lane, message, key, sequence, bytes)
  SELECT id, listener, lane, position, CASE WHEN ordered THEN key ELSE id::text END, number, bytes
  FROM delivery ORDER BY ordinal, listener`);

/** fanOut.read — the deliveries of a message, each with its attempts. $1 position in the inbox */
export const READ_DELIVERIES = `
  SELECT outbox.id, listener.name AS listener, outbox.status, outbox.attempt, outbox.error, outbox.sequence,
         outbox.created_at, outbox.settled_at, outbox.answered, outbox.duration_ms,
         (SELECT json_build_object('kind', kind, 'by', created_by, 'at', created_at, 'reason', reason)
          FROM ruling WHERE ruling.id = outbox.ruling) AS ruling,
         ${ATTEMPTS_OF('outbox.position')}
  FROM outbox LEFT JOIN listener ON listener.number = outbox.listener
  WHERE outbox.message = $1 ORDER BY outbox.position LIMIT 1000`;

/** fanOut.owed — what is still owed of a message, with all that each delivery may wait for. $1 position in the inbox */
export const OWED_DELIVERIES = `
  SELECT outbox.id, listener.name AS listener, outbox.status, listener.state, listener.state_reason,
         listener.deleted_at IS NOT NULL AS deleted, gate.closed_until, gate.reason AS gate_reason,
         hold.reason AS hold_reason, hold.until::text AS hold_until, lane.replica
  FROM outbox
  LEFT JOIN listener ON listener.number = outbox.listener
  LEFT JOIN gate ON gate.listener = outbox.listener AND gate.closed_until > clock_timestamp()
  LEFT JOIN hold ON hold.queue = 'outbox' AND hold.lane = outbox.lane AND hold.key = outbox.key
  LEFT JOIN lane ON lane.queue = 'outbox' AND lane.lane = outbox.lane AND lane.leased_until > clock_timestamp()
  WHERE outbox.message = $1 AND outbox.settled_at IS NULL ORDER BY outbox.position LIMIT 1000`;
