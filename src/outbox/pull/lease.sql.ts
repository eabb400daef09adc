import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { prepared } from '../../database/prepared.ts';

export const SETTLE_SETTINGS = FORCE_INDEX_PLANS;

/*
 * A delivery in flight belongs to its lease, and is changed by nobody else: settling it needs no lane, and waits for no pull.
 * Only the hold of its key is shared with pulls, which park deliveries behind it.
 */

/** By row comparison: only the primary key can be used then, not the index by time, which has all holds of the lane. */
const HOLD_OF = (one: string) => `
  (hold.queue, hold.lane, hold.key) >= ('outbox', ${one}.lane, ${one}.key)
  AND (hold.queue, hold.lane, hold.key) <= ('outbox', ${one}.lane, ${one}.key)`;

/**
 * lease.lock — in a statement before lease.settle, which then sees what others did with these leases and with the holds of
 * their keys: pulls park deliveries behind them, replays and revives requeue some. Always in the same order.
 * $1 lanes, $2 positions
 */
export const LOCK_LEASES = prepared(`
  SELECT lease.key, hold.until
  FROM (
    SELECT lane, position FROM unnest($1::integer[], $2::bigint[]) AS asked(lane, position) ORDER BY position
  ) AS asked
  CROSS JOIN LATERAL (
    SELECT one.lane, one.key FROM pull_lease AS one
    WHERE one.lane = asked.lane AND one.position = asked.position LIMIT 1 FOR UPDATE
  ) AS lease
  LEFT JOIN LATERAL (SELECT hold.until FROM hold WHERE ${HOLD_OF('lease')} LIMIT 1 FOR UPDATE) AS hold ON true`);

/** Of the kinds below, those after which the delivery is no longer in flight. */
const ENDS = `kind <> 'extend'`;
/** After 24.8 days it is more than an integer can be; a lease can be extended for longer, and a database be off for longer. */
const DURATION = `LEAST(round(extract(epoch FROM now() - lease.handed_at) * 1000), ${2 ** 31 - 1})::integer`;
/** The status that a repeated request finds. */
const STATUS = `CASE kind WHEN 'finish' THEN 'finished' WHEN 'dead' THEN 'dead' WHEN 'retry' THEN 'held' END`;

/**
 * lease.settle — ends leases, or extends them, as far as they are still valid: the delivery was not handed out again, and the
 * lease has not expired, by the time at which the transaction began; with `late` it must have expired instead.
 *
 * finish: processed. dead: a dead letter. retry: waits behind the hold of its key. expire: can be handed out again at once.
 * return: the same, and no attempt is counted. extend: the lease lasts that much longer from now.
 *
 * The hold of a key that waited for the delivery in flight (reason `leased`) ends, or becomes another one.
 *
 * Returns for each lease, in the order given: done, fenced, or unknown. A lease that was settled in the same way before
 * is done: the response to that may have been lost. `changed`: it was settled now.
 *
 * $1 lanes, $2 positions, $3 attempts, $4 tokens, $5 kinds, $6 late, $7 ms to extend or to hold for (null: indefinitely),
 * $8 reasons for holds or null, $9 errors
 */
export const SETTLE = prepared(`
  WITH asked AS MATERIALIZED (
    SELECT asked.*, lease.place, lease.key, COALESCE(lease.valid, false) AS valid,
           ${DURATION} AS duration
    FROM unnest($1::integer[], $2::bigint[], $3::smallint[], $4::uuid[], $5::text[], $6::boolean[], $7::bigint[], $8::text[], $9::text[])
           WITH ORDINALITY AS asked(lane, position, attempt, token, kind, late, ms, held_for, error, nth)
    LEFT JOIN LATERAL (
      SELECT one.ctid AS place, one.key, one.handed_at,
             one.token = asked.token AND one.attempt = asked.attempt AND (one.expires_at > now()) = NOT asked.late AS valid
      FROM pull_lease AS one WHERE one.lane = asked.lane AND one.position = asked.position LIMIT 1
    ) AS lease ON true
  ),
  valid AS MATERIALIZED (SELECT * FROM asked WHERE valid),
  ended AS (
    DELETE FROM pull_lease WHERE ctid = ANY (ARRAY(SELECT place FROM valid WHERE ${ENDS}))
  ),
  extended AS (
    UPDATE pull_lease SET expires_at = GREATEST(pull_lease.expires_at, now() + valid.ms * interval '1 millisecond')
    FROM valid WHERE pull_lease.ctid = valid.place AND valid.kind = 'extend'
  ),
  recorded AS (
    INSERT INTO attempt (delivery, attempt, error, duration_ms, at)
    SELECT position, attempt, error, duration, now() FROM valid WHERE kind IN ('retry', 'dead', 'expire')
  ),
  changed AS (
    UPDATE outbox
    SET status = CASE valid.kind WHEN 'finish' THEN 'finished' WHEN 'dead' THEN 'dead' WHEN 'retry' THEN 'held'
                                 ELSE outbox.status END,
        waits = CASE valid.kind WHEN 'retry' THEN 'held' WHEN 'expire' THEN outbox.waits END,
        settled_at = CASE WHEN valid.kind IN ('finish', 'dead') THEN now() END,
        lapsed_at = CASE WHEN valid.kind = 'dead' THEN clock_timestamp() END,
        attempt = valid.attempt, error = valid.error,
        duration_ms = CASE WHEN valid.kind = 'finish' THEN valid.duration END,
        lease = CASE WHEN NOT valid.late THEN valid.token END
    FROM valid
    CROSS JOIN LATERAL (SELECT one.ctid AS place FROM outbox AS one WHERE one.position = valid.position LIMIT 1) AS delivery
    WHERE outbox.ctid = delivery.place AND valid.kind IN ('finish', 'dead', 'retry', 'expire')
  ),
  holding AS (
    INSERT INTO hold (queue, lane, key, until, reason)
    SELECT 'outbox', lane, key, COALESCE(now() + ms * interval '1 millisecond', 'infinity'), held_for
    FROM valid WHERE held_for IS NOT NULL AND ${ENDS}
    ON CONFLICT (queue, lane, key) DO UPDATE
    SET until = CASE WHEN hold.reason = 'leased' AND hold.kept_by IS NULL THEN EXCLUDED.until
                     ELSE GREATEST(hold.until, EXCLUDED.until) END,
        reason = CASE WHEN hold.reason = 'leased' OR hold.until <= EXCLUDED.until THEN EXCLUDED.reason ELSE hold.reason END,
        then_until = CASE WHEN hold.kept_by IS NULL THEN hold.then_until ELSE EXCLUDED.until END,
        set_at = now()
  ),
  released AS (
    UPDATE hold SET until = CASE WHEN hold.kept_by IS NULL THEN now() ELSE hold.until END,
                    then_until = CASE WHEN hold.kept_by IS NULL THEN NULL ELSE now() END
    WHERE ctid = ANY (ARRAY(
      SELECT own.place
      FROM valid CROSS JOIN LATERAL (
        SELECT hold.ctid AS place, hold.reason FROM hold WHERE ${HOLD_OF('valid')} LIMIT 1
      ) AS own
      WHERE own.reason = 'leased' AND valid.held_for IS NULL AND ${ENDS}))
  )
  SELECT CASE WHEN valid THEN 'done' ELSE COALESCE((
           SELECT CASE WHEN one.lease = token AND one.attempt = asked.attempt AND one.status = ${STATUS} THEN 'done' ELSE 'fenced' END
           FROM outbox AS one WHERE one.position = asked.position AND one.lane = asked.lane), 'unknown') END AS outcome,
         valid AS changed, duration AS "durationMs"
  FROM asked ORDER BY nth`);

/** lease.expired — leases that have expired, the longest ago first. $1 limit */
export const EXPIRED = `
  SELECT lane, position, attempt, token FROM pull_lease WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT $1`;

/** lease.nextExpiry — milliseconds until the next lease expires; null: there is none. */
export const NEXT_EXPIRY = `
  SELECT GREATEST(0, ceil(extract(epoch FROM min(expires_at) - clock_timestamp()) * 1000))::bigint AS ms FROM pull_lease`;

/** lease.handedOut — what a hand-out leased, if it was committed. $1 listener, $2 token */
export const HANDED_OUT = `
  SELECT lane, position, attempt, token FROM pull_lease
  WHERE lane >= $1::integer * 256 AND lane <= $1 * 256 + 255 AND token = $2::uuid`;
