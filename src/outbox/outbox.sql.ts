import { prepared } from '../database/prepared.ts';
import { putBackRows, whereStillClaimed } from '../lanes/lease.ts';
import { OUTCOME_UNKNOWN } from './claim/outbox-queue.ts';

const SCAN_AFTER = (lane: string) =>
  `CASE WHEN ${lane} / 256 = ANY ($1::integer[]) THEN ${lane} / 256 * 256 + 255 ELSE ${lane} END`;
const OPEN = (lane: string) => `NOT ${lane} / 256 = ANY ($1::integer[])`;
const FREE = (lane: string) => `NOT EXISTS (
     SELECT FROM lane AS taken
     WHERE taken.queue = 'outbox' AND taken.lane = ${lane} AND taken.leased_until > clock_timestamp())`;

/**
 * outbox.busyLanes — free lanes of listeners that may be sent to: those with a ready row (ms is null), those with a hold
 * that is due (ms is 0); and, in a row without a lane, the milliseconds until the next hold is due.
 *
 * Walks from lane to lane over the partial indexes (a loose scan), so that a thousand idle listeners cost nothing
 * (measured: 0.6 ms against 34 for probing all their lanes); a closed listener is skipped as a whole, however many
 * deliveries it has pending. What a crashed replica had in flight is still ready, or behind a hold that is due.
 * $1 closed listeners, $2 start after this lane, $3 limit
 */
export const BUSY_LANES = `
  WITH RECURSIVE ready(lane) AS (
    (SELECT queued.lane FROM outbox AS queued
     WHERE queued.lane > $2 AND queued.settled_at IS NULL AND queued.waits IS NULL
     ORDER BY queued.lane, queued.position LIMIT 1)
    UNION ALL
    SELECT next.lane FROM ready CROSS JOIN LATERAL (
      SELECT queued.lane FROM outbox AS queued
      WHERE queued.lane > ${SCAN_AFTER('ready.lane')} AND queued.settled_at IS NULL AND queued.waits IS NULL
      ORDER BY queued.lane, queued.position LIMIT 1) AS next
  ),
  held(lane, until) AS (
    (SELECT hold.lane, hold.until FROM hold
     WHERE hold.queue = 'outbox' ORDER BY hold.queue, hold.lane, hold.until LIMIT 1)
    UNION ALL
    SELECT next.lane, next.until FROM held CROSS JOIN LATERAL (
      SELECT hold.lane, hold.until FROM hold
      WHERE hold.queue = 'outbox' AND hold.lane > ${SCAN_AFTER('held.lane')}
      ORDER BY hold.queue, hold.lane, hold.until LIMIT 1) AS next
  )
  (SELECT lane, NULL::bigint AS ms FROM ready WHERE ${OPEN('lane')} AND ${FREE('ready.lane')} LIMIT $3)
  UNION ALL
  (SELECT lane, 0 FROM held
   WHERE until <= clock_timestamp() AND ${OPEN('lane')} AND ${FREE('held.lane')} LIMIT $3)
  UNION ALL
  SELECT NULL, ceil(extract(epoch FROM min(until) - clock_timestamp()) * 1000)::bigint FROM held
  WHERE until > clock_timestamp() AND until < 'infinity' AND ${OPEN('lane')}`;

/** outbox.busyLanesOf — the same for one listener, to find the one delivery that probes its circuit. $1 listener, $2 limit */
export const BUSY_LANES_OF = `
  SELECT lane.lane FROM lane
  CROSS JOIN LATERAL (
    (SELECT FROM outbox AS head
     WHERE (head.lane, head.position) > (lane.lane, 0) AND (head.lane, head.position) <= (lane.lane, 9223372036854775807)
       AND head.settled_at IS NULL AND head.waits IS NULL
     ORDER BY head.lane, head.position LIMIT 1)
    UNION ALL
    (SELECT FROM hold
     WHERE hold.queue = 'outbox' AND hold.lane = lane.lane AND hold.until <= statement_timestamp()
     ORDER BY hold.queue, hold.lane, hold.until LIMIT 1)
    LIMIT 1
  ) AS work
  WHERE lane.queue = 'outbox' AND lane.lane >= $1::integer * 256 AND lane.lane < $1::integer * 256 + 256
    AND lane.leased_until <= clock_timestamp()
  ORDER BY lane.lane LIMIT $2`;

/** outbox.content — the messages to send. $1 positions in the inbox */
export const CONTENT = `
  SELECT position, id, source, type, key, payload::text AS payload, headers, occurred_at, received_at
  FROM inbox WHERE position = ANY ($1::bigint[])`;

/*
 * How claimed deliveries end, or wait again. Each statement names rows by position and attempt and changes only those still
 * marked `processing`: when it is written twice (the reply to COMMIT was lost), the second time changes nothing.
 */

const MARKED = whereStillClaimed('outbox');

/*
 * The rows that a settlement wrote carry the time of its transaction, to the microsecond: `settled_at` of a delivery that
 * succeeded, `at` of an attempt that failed. This stamp shows whether a COMMIT took effect whose reply was lost.
 * pg_xact_status cannot: a failover that loses a transaction gives its id to another one. A replay keeps the time of what it
 * reopens.
 */
const STAMP = (time: string) => `(extract(epoch FROM ${time}) * 1000000)::bigint`;

/** outbox.stamp — the stamp that the rows of this transaction will carry. */
export const OWN_STAMP = prepared(`SELECT ${STAMP('now()')} AS stamp`);

/** outbox.stamped — which of these deliveries carry which of these stamps. $1 positions, $2 stamps */
export const STAMPED = `
  SELECT outbox.position, ${STAMP('outbox.settled_at')} AS stamp FROM outbox
  WHERE outbox.position = ANY ($1::bigint[]) AND ${STAMP('outbox.settled_at')} = ANY ($2::bigint[])
  UNION ALL
  SELECT attempt.delivery, ${STAMP('attempt.at')} FROM attempt
  WHERE attempt.delivery = ANY ($1::bigint[]) AND ${STAMP('attempt.at')} = ANY ($2::bigint[])`;

/** outbox.delivered — $1 positions, $2 attempts, $3 status codes, $4 durations, $5 excerpts (null: an empty response) */
export const DELIVERED = prepared(`
  UPDATE outbox SET status = 'finished', waits = NULL, settled_at = now(), error = NULL,
         answered = done.status, duration_ms = done.duration, excerpt = done.excerpt
  FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::integer[], $5::text[])
         AS done(position, attempt, status, duration, excerpt)
  ${MARKED('done')}`);

/** outbox.endAsDead — $1 positions, $2 attempts, $3 errors */
export const END_AS_DEAD = `
  UPDATE outbox SET status = 'dead', waits = NULL, settled_at = clock_timestamp(), lapsed_at = clock_timestamp(),
         error = ended.error
  FROM unnest($1::bigint[], $2::smallint[], $3::text[]) AS ended(position, attempt, error)
  ${MARKED('ended')}`;

/** outbox.putBack — see `putBackRows`. */
export const PUT_BACK_DELIVERIES = putBackRows('outbox');

/** outbox.untouched — claimed and not sent: restored to what it was before the claim. $1 positions, $2 attempts */
export const UNTOUCHED = `
  UPDATE outbox SET attempt = outbox.attempt - 1,
         status = CASE WHEN outbox.waits = 'held' THEN 'held' ELSE 'pending' END
  FROM unnest($1::bigint[], $2::smallint[]) AS back(position, attempt)
  ${MARKED('back')}`;

/**
 * outbox.record — failed attempts; issued before their rows are changed.
 * $1 deliveries, $2 attempts, $3 statuses, $4 errors, $5 excerpts, $6 durations
 */
export const RECORD_ATTEMPTS = `
  INSERT INTO attempt (delivery, attempt, status, error, excerpt, duration_ms, at)
  SELECT tried.*, now()
  FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::text[], $5::text[], $6::integer[])
         AS tried(position, attempt, status, error, excerpt, duration)
  CROSS JOIN LATERAL (
    SELECT FROM outbox AS marked
    WHERE marked.position = tried.position AND marked.attempt = tried.attempt AND marked.status = 'processing' LIMIT 1
  ) AS mine`;

/**
 * outbox.recordLost — the same for deliveries that this replica no longer has claimed, unless the next owner has already
 * recorded that the outcome is unknown. Nothing is recorded for a delivery that was removed.
 * $1 to $6 as above, $7 whether an earlier call may have recorded the same
 */
export const RECORD_LOST = `
  INSERT INTO attempt (delivery, attempt, status, error, excerpt, duration_ms)
  SELECT tried.*
  FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::text[], $5::text[], $6::integer[])
         AS tried(position, attempt, status, error, excerpt, duration)
  WHERE EXISTS (SELECT FROM outbox WHERE outbox.position = tried.position)
    AND NOT EXISTS (SELECT FROM attempt WHERE attempt.delivery = tried.position AND attempt.attempt = tried.attempt
                      AND (attempt.error LIKE '${OUTCOME_UNKNOWN}%'
                           OR $7::boolean AND (attempt.error, attempt.duration_ms) = (tried.error, tried.duration)))`;
