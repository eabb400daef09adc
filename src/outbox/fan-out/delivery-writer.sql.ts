import { prepared } from '../../database/prepared.ts';

/**
 * fanOut.write — one delivery per message and listener of its type, in the order in which the messages were handled, with
 * its sequence number for that listener and key. The numbers are counted in a table of their own, one statement for the
 * whole batch; only the holder of a key's lane changes its row. A message without a key has the number 1.
 * Where order does not matter, each delivery is its own key and goes to any lane; so is that of a message without a key.
 * $1 positions, $2 keys, $3 whether there is no key, $4 lanes, $5 types, $6 bytes of the messages; $7 types, $8 listeners, $9 lanes,
 * $10 ordered of the targets
 */
export const WRITE_DELIVERIES = prepared(`
  WITH owed AS MATERIALIZED (
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
    SELECT listener, key, max(total) FROM owed WHERE NOT keyless GROUP BY listener, key
    ON CONFLICT (listener, key) DO UPDATE SET last = delivery_sequence.last + EXCLUDED.last
    RETURNING listener, key, last
  ),
  delivery AS (
    SELECT owed.*, gen_random_uuid() AS id, COALESCE(counted.last - owed.total + owed.nth, 1) AS number
    FROM owed LEFT JOIN counted ON NOT owed.keyless AND counted.listener = owed.listener AND counted.key = owed.key
  )
  INSERT INTO outbox (id, listener, lane, message, key, sequence, bytes)
  SELECT id, listener, lane, position, CASE WHEN ordered AND NOT keyless THEN key ELSE id::text END, number, bytes
  FROM delivery ORDER BY ordinal, listener`);
