import type { Stage } from './lane-metrics.ts';

/**
 * lane.lock — until the transaction ends, its owner cannot claim, settle or clear holds in the lane: the transaction acts in
 * place of the owner. Rows that the owner has claimed are not touched. One lane at a time, to avoid deadlocks.
 * $1 queue, $2 lane
 */
export const LOCK_LANE = 'SELECT FROM lane WHERE queue = $1 AND lane = $2 FOR NO KEY UPDATE';

/** lane.tryLock — the same; returns no row if another transaction has locked the lane. */
export const TRY_LOCK_LANE = `${LOCK_LANE} SKIP LOCKED`;

/** `kept_by` lists all requeuers that are part way through the key: it continues when the last of them has finished. */
const REQUEUERS = `string_to_array(hold.kept_by, ', ')`;

/** hold.hasRequeueHold — whether the requeuer is part way through the key. $1 queue, $2 lane, $3 key, $4 requeuer */
export const HAS_REQUEUE_HOLD = `
  SELECT FROM hold WHERE queue = $1 AND lane = $2 AND key = $3 AND $4 = ANY (${REQUEUERS})`;

/**
 * hold.setRequeueHold — a key of which only some rows were put back waits, also if another hold held it before, until the rest is put
 * back too: otherwise later rows would overtake the rest. A key that was held by a dead letter continues after that if the
 * requeuer passes dead letters. $1 queue, $2 lane, $3 key, $4 requeuer, $5 note, $6 whether it passes dead letters
 */
export const SET_REQUEUE_HOLD = `
  INSERT INTO hold (queue, lane, key, until, reason, note, kept_by, then_until)
  VALUES ($1, $2, $3, 'infinity', 'operator', $5, $4, clock_timestamp())
  ON CONFLICT (queue, lane, key) DO UPDATE
  SET until = 'infinity', kept_by = concat_ws(', ', hold.kept_by, EXCLUDED.kept_by),
      then_until = CASE WHEN $6::boolean AND hold.reason = 'dead-letter' THEN EXCLUDED.then_until
                        WHEN hold.until = 'infinity' THEN hold.then_until ELSE hold.until END,
      reason = CASE WHEN $6 AND hold.reason = 'dead-letter' OR hold.until <= clock_timestamp() THEN EXCLUDED.reason
                    ELSE hold.reason END
  WHERE (EXCLUDED.kept_by = ANY (${REQUEUERS})) IS NOT TRUE`;

/**
 * hold.setDue — rows that were put back are behind a hold that is due: they are claimed before later rows, oldest first.
 * A key held by a dead letter continues if the requeuer passes dead letters; if another requeuer is part way through the
 * key, it continues when that one has finished.
 * $1 queue, $2 lane, $3 keys, $4 requeuer, $5 note, $6 whether it passes dead letters
 */
export const SET_DUE = `
  INSERT INTO hold (queue, lane, key, until, reason, note)
  SELECT $1, $2, key, clock_timestamp(), 'operator', $5 FROM unnest($3::text[]) AS key
  ON CONFLICT (queue, lane, key) DO UPDATE
  SET until = CASE WHEN hold.kept_by IS NULL THEN EXCLUDED.until ELSE hold.until END,
      then_until = EXCLUDED.until, reason = EXCLUDED.reason
  WHERE $6::boolean AND hold.reason = 'dead-letter' AND ($4 = ANY (${REQUEUERS})) IS NOT TRUE`;

const OTHERS = `array_remove(${REQUEUERS}, $4)`;
const STAYS = `(hold.reason = 'dead-letter' OR ${OTHERS} <> '{}')`;

/**
 * hold.removeRequeueHold — the requeuer has finished these keys. The hold of a message that became a dead letter since then
 * stays. $1 queue, $2 lane, $3 keys, $4 requeuer
 */
export const REMOVE_REQUEUE_HOLD = `
  UPDATE hold
  SET kept_by = NULLIF(array_to_string(${OTHERS}, ', '), ''), then_until = CASE WHEN ${STAYS} THEN then_until END,
      until = CASE WHEN ${STAYS} THEN until ELSE COALESCE(then_until, 'infinity') END,
      reason = CASE WHEN ${STAYS} OR note IS NULL THEN reason ELSE 'operator' END
  WHERE queue = $1 AND lane = $2 AND key = ANY ($3::text[]) AND $4 = ANY (${REQUEUERS})`;

/**
 * hold.endDeadLetterHold — a dead letter's hold covers all dead letters of the key since it was set, and ends when the last of
 * them is revived or discarded. If an operator holds the key too (there is a note), it becomes the operator's hold.
 * $1 queue, $2 lane, $3 keys
 */
export const endDeadLetterHold = (table: Stage) => `
  UPDATE hold
  SET until = CASE WHEN hold.note IS NULL THEN clock_timestamp() ELSE COALESCE(hold.then_until, hold.until) END,
      reason = CASE WHEN hold.note IS NULL THEN hold.reason ELSE 'operator' END, then_until = NULL
  WHERE hold.queue = $1 AND hold.lane = $2 AND hold.key = ANY ($3::text[])
    AND hold.reason = 'dead-letter' AND hold.until > clock_timestamp() AND hold.kept_by IS NULL AND NOT EXISTS (
      SELECT FROM ${table} AS other
      WHERE other.lane = hold.lane AND other.key = hold.key AND other.fingerprint IS NOT NULL
        AND other.lapsed_at >= hold.set_at)`;
