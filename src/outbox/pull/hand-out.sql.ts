import { FORCE_INDEX_PLANS_ASYNC_COMMIT } from '../../database/force-index-plans.ts';
import { prepared } from '../../database/prepared.ts';
import { utc } from '../../database/utc.ts';

/*
 * A pull is one transaction in one round trip: settings, pull.lockLanes, pull.handOut. Lanes are not leased for it but locked:
 * nothing has to be released, and no row version is left behind. Which lanes could be locked is passed on in a setting of the
 * transaction: pull.handOut must not lock more of them, since its snapshot would be older than what their last owner wrote.
 */

/** A pull that was lost with the server never happened: its leases are unknown, and the messages are handed out again. */
export const PULL_SETTINGS = FORCE_INDEX_PLANS_ASYNC_COMMIT;

/** The greatest possible position. */
const LAST = '9223372036854775807';
/** Due holds of a lane that one pull reads. */
const MAX_DUE_HOLDS = 64;

/**
 * pull.lockFreeLanes — one pull of a listener at a time, over all replicas, because its limits are counted; then its lanes, as
 * far as no other transaction has locked them (it requeues deliveries, or ends those that waited too long). Returns how many
 * lanes there are and how many are locked. $1 listener
 */
export const LOCK_FREE_LANES = lockLanes('SKIP LOCKED');

/** pull.lockAllLanes — the same, but waits for those other transactions. $1 listener */
export const LOCK_ALL_LANES = lockLanes('');

function lockLanes(ifLocked: string): string {
  const lanes = `lane.queue = 'outbox' AND lane.lane >= $1::integer * 256 AND lane.lane <= $1 * 256 + 255
        AND lane.leased_until = 'infinity'`;
  return prepared(`
    WITH only_one AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext('sluice.pull'), $1::integer)),
    locked AS MATERIALIZED (
      SELECT lane.lane FROM lane WHERE ${lanes} ORDER BY lane.queue, lane.lane FOR NO KEY UPDATE ${ifLocked}
    )
    SELECT set_config('sluice.pull_lanes', COALESCE((SELECT string_agg(lane::text, ',') FROM locked), ''), true) AS names,
           (SELECT count(*)::integer FROM lane WHERE ${lanes}) AS lanes, (SELECT count(*)::integer FROM locked) AS locked
    FROM only_one`);
}

/**
 * pull.handOut — leases deliveries of the locked lanes, oldest first, at most one of each key, and returns them with their
 * messages. Deliveries in flight are read once, and found in memory (a hashed subplan): 1,000 of them cost less than 100
 * probes of an index.
 *
 * A delivery whose key is held, or has one in flight, is skipped. It is parked (`held`) if there is a hold, or if deliveries
 * behind it could not be read because of such ones: then no pull reads it twice, however many there are, and a hold without
 * end (`leased`) ends when the one in flight is settled. A hold that was due waits for that, too. Both need the lease of the
 * one in flight to be there until the COMMIT (pinned): a transaction that ends it right now does not see the hold, and
 * nobody would end the hold later. A hold that is due and has nothing behind it is deleted.
 *
 * Returns at least one row, without a position if nothing was handed out.
 *
 * $1 listener, $2 max deliveries, $3 max bytes, $4 token, $5 lease in ms, $6 max in flight, $7 per second or null, $8 burst,
 * $9 how many times the share of a lane in them is read, $10 whether deliveries of a key wait for each other
 */
export const HAND_OUT = prepared(`
  WITH mine AS MATERIALIZED (
    SELECT lane::integer FROM unnest(string_to_array(current_setting('sluice.pull_lanes'), ',')) AS lane
  ),
  in_flight AS MATERIALIZED (
    SELECT lease.position, lease.key, lease.ctid AS place FROM pull_lease AS lease
    WHERE lease.lane >= $1::integer * 256 AND lease.lane <= $1 * 256 + 255
  ),
  limits AS MATERIALIZED (
    SELECT (SELECT count(*)::integer FROM in_flight) AS in_flight, next.at AS next_turn,
           floor(extract(epoch FROM statement_timestamp() - next.at) * $7::float8) + 1 AS permits
    FROM (
      SELECT GREATEST(LEAST(COALESCE((SELECT rate.next_at FROM rate WHERE rate.listener = $1), '-infinity'),
                            statement_timestamp() + 1 / $7::float8 * interval '1 second'),
                      statement_timestamp() - ($8::float8 - 1) / $7::float8 * interval '1 second') AS at
    ) AS next
  ),
  room AS MATERIALIZED (
    SELECT GREATEST(0, LEAST($2::integer, $6::integer - in_flight, COALESCE(permits, $2)))::integer AS rows FROM limits
  ),
  span AS MATERIALIZED (
    SELECT CASE WHEN rows = 0 THEN 0 ELSE 4 + ceil($9::float8 * rows / GREATEST(1, (SELECT count(*) FROM mine))) END AS per_lane
    FROM room
  ),
  ready AS MATERIALIZED (
    SELECT mine.lane, head.*, hold.key IS NOT NULL AS held,
           $10::boolean AND head.key IN (SELECT in_flight.key FROM in_flight) AS leased,
           count(*) OVER (PARTITION BY mine.lane) AS in_lane,
           row_number() OVER (PARTITION BY mine.lane, head.key ORDER BY head.position) AS of_key
    FROM mine
    CROSS JOIN LATERAL (
      SELECT queued.ctid AS place, queued.position, queued.key, queued.bytes, queued.attempt, queued.message, queued.sequence
      FROM outbox AS queued
      WHERE (queued.lane, queued.position) > (mine.lane, 0) AND (queued.lane, queued.position) <= (mine.lane, ${LAST})
        AND queued.settled_at IS NULL AND queued.waits IS NULL
        AND queued.position NOT IN (SELECT in_flight.position FROM in_flight)
      ORDER BY queued.lane, queued.position LIMIT (SELECT per_lane FROM span)
    ) AS head
    LEFT JOIN LATERAL (
      SELECT next.queue, next.lane, next.key FROM hold AS next
      WHERE (next.queue, next.lane, next.key) >= ('outbox', mine.lane, head.key)
      ORDER BY next.queue, next.lane, next.key LIMIT 1
    ) AS hold ON hold.queue = 'outbox' AND hold.lane = mine.lane AND hold.key = head.key
  ),
  first_ready AS MATERIALIZED (
    SELECT lane, key, min(position) AS position FROM ready WHERE held GROUP BY lane, key
  ),
  due AS MATERIALIZED (
    SELECT mine.lane, hold.key AS held_key, hold.place AS hold, late.*,
           hold.key IN (SELECT in_flight.key FROM in_flight) AS leased
    FROM mine
    CROSS JOIN LATERAL (
      SELECT hold.ctid AS place, hold.key FROM hold
      WHERE hold.queue = 'outbox' AND hold.lane = mine.lane AND hold.until <= statement_timestamp()
      ORDER BY hold.queue, hold.lane, hold.until LIMIT LEAST(${MAX_DUE_HOLDS}, (SELECT per_lane FROM span))
    ) AS hold
    LEFT JOIN LATERAL (
      SELECT queued.ctid AS place, queued.position, queued.key, queued.bytes, queued.attempt, queued.message, queued.sequence
      FROM outbox AS queued
      WHERE queued.lane = mine.lane AND queued.key = hold.key AND queued.settled_at IS NULL AND queued.waits = 'held'
      ORDER BY queued.lane, queued.key, queued.position LIMIT 1
    ) AS late ON true
  ),
  able AS MATERIALIZED (
    SELECT lane, position, key, bytes, attempt, message, sequence, NULL::tid AS hold
    FROM ready WHERE NOT held AND NOT leased AND of_key = 1
    UNION ALL
    SELECT lane, position, key, bytes, attempt, message, sequence, hold
    FROM due
    WHERE position IS NOT NULL AND NOT leased AND NOT EXISTS (
      SELECT FROM first_ready
      WHERE first_ready.lane = due.lane AND first_ready.key = due.key AND first_ready.position < due.position)
  ),
  chosen AS MATERIALIZED (
    SELECT ranked.* FROM (
      SELECT able.*, row_number() OVER in_order AS nth, sum(able.bytes) OVER in_order AS total
      FROM able WINDOW in_order AS (ORDER BY able.position ROWS UNBOUNDED PRECEDING)) AS ranked
    WHERE nth <= (SELECT rows FROM room) AND (nth = 1 OR total <= $3::bigint)
  ),
  leasing AS (
    INSERT INTO pull_lease (lane, position, key, token, attempt, expires_at)
    SELECT lane, position, key, $4::uuid, attempt + 1, clock_timestamp() + $5 * interval '1 millisecond' FROM chosen
  ),
  pinned AS MATERIALIZED (
    SELECT lease.key FROM pull_lease AS lease
    WHERE lease.ctid = ANY (ARRAY(
      SELECT in_flight.place FROM in_flight
      WHERE in_flight.key IN (
        SELECT key FROM ready
        WHERE leased AND NOT held AND in_lane >= (SELECT per_lane FROM span)
          AND (SELECT count(*) FROM able) < (SELECT rows FROM room)
        UNION ALL
        SELECT held_key FROM due WHERE leased)))
    FOR KEY SHARE SKIP LOCKED
  ),
  blocked AS MATERIALIZED (
    SELECT lane, key, place, held FROM ready WHERE held OR leased AND key IN (SELECT pinned.key FROM pinned)
  ),
  parked AS (
    UPDATE outbox SET status = 'held', waits = 'held' WHERE ctid = ANY (ARRAY(SELECT place FROM blocked)) RETURNING position
  ),
  holding AS (
    INSERT INTO hold (queue, lane, key, until, reason)
    SELECT DISTINCT 'outbox', lane, key, 'infinity'::timestamptz, 'leased' FROM blocked WHERE NOT held
    ON CONFLICT (queue, lane, key) DO NOTHING
  ),
  continued AS (
    UPDATE hold SET until = 'infinity', reason = 'leased', note = NULL, then_until = NULL
    WHERE ctid = ANY (ARRAY(
        SELECT hold FROM chosen WHERE hold IS NOT NULL
        UNION ALL
        SELECT hold FROM due WHERE leased AND held_key IN (SELECT pinned.key FROM pinned)))
      AND until <= statement_timestamp()
  ),
  cleared AS (
    DELETE FROM hold WHERE ctid = ANY (ARRAY(
        SELECT hold FROM due
        WHERE position IS NULL AND NOT leased AND NOT EXISTS (
          SELECT FROM first_ready WHERE first_ready.lane = due.lane AND first_ready.key = due.held_key)))
      AND until <= statement_timestamp()
  ),
  rated AS (
    INSERT INTO rate (listener, next_at)
    SELECT $1, limits.next_turn + taken.count / $7::float8 * interval '1 second'
    FROM limits CROSS JOIN (SELECT count(*) AS count FROM chosen) AS taken
    WHERE $7::float8 IS NOT NULL AND taken.count > 0
    ON CONFLICT (listener) DO UPDATE SET next_at = EXCLUDED.next_at
  )
  SELECT (SELECT count(*)::integer FROM parked) AS parked, limits.in_flight AS "inFlight", limits.permits,
         EXISTS (SELECT FROM ready WHERE leased OR of_key > 1) AS "keysInFlight",
         EXISTS (SELECT FROM ready WHERE in_lane >= (SELECT per_lane FROM span)) AS more,
         chosen.lane, chosen.position, chosen.attempt + 1 AS attempt, chosen.sequence, chosen.bytes, message.*
  FROM limits
  LEFT JOIN chosen ON true
  LEFT JOIN LATERAL (
    SELECT inbox.id, inbox.type, inbox.key, inbox.payload::text AS payload, inbox.headers::text AS headers,
           ${utc('COALESCE(inbox.occurred_at, inbox.received_at)')} AS timestamp
    FROM inbox WHERE inbox.position = chosen.message LIMIT 1
  ) AS message ON true`);

/** pull.nextHold — milliseconds until the next hold of the listener is due, an hour at most; null: there is none. $1 listener */
export const NEXT_HOLD = prepared(`
  SELECT LEAST(ceil(extract(epoch FROM min(next.until) - clock_timestamp()) * 1000), 3600000)::integer AS ms
  FROM lane CROSS JOIN LATERAL (
    SELECT hold.until FROM hold
    WHERE hold.queue = 'outbox' AND hold.lane = lane.lane AND hold.until > statement_timestamp() AND hold.until < 'infinity'
    ORDER BY hold.queue, hold.lane, hold.until LIMIT 1
  ) AS next
  WHERE lane.queue = 'outbox' AND lane.lane >= $1::integer * 256 AND lane.lane <= $1 * 256 + 255`);
