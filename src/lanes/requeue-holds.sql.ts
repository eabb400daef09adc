import type { Stage } from './lane-metrics.ts';

/**
 * lane.lock — nobody claims, settles or clears holds in the lane until we are done: for that long we stand in for its
 * holder. What it has in its hands is not touched. One lane at a time, so that nobody waits in a circle. $1 queue, $2 lane
 */
export const LOCK_LANE = 'SELECT FROM lane WHERE queue = $1 AND lane = $2 FOR NO KEY UPDATE';

/** lane.lockAtRest — the same, unless somebody is at it. */
export const TRY_LOCK_LANE = `${LOCK_LANE} SKIP LOCKED`;

/** Several may be half way through one key: it goes on when the last of them lets go. */
const KEPT_BY = `string_to_array(hold.kept_by, ', ')`;

/** hold.keeps — whether the keeper keeps it. $1 queue, $2 lane, $3 key, $4 keeper */
export const HAS_REQUEUE_HOLD = `
  SELECT FROM hold WHERE queue = $1 AND lane = $2 AND key = $3 AND $4 = ANY (${KEPT_BY})`;

/**
 * hold.keep — a key that is half way waits, whatever held it, until the rest of it is put back, too: what is behind it
 * would come before the rest. One that waited behind its dead letter goes on then, where the keeper passes those.
 * $1 queue, $2 lane, $3 key, $4 keeper, $5 note, $6 whether it passes dead letters
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
  WHERE (EXCLUDED.kept_by = ANY (${KEPT_BY})) IS NOT TRUE`;

/**
 * hold.due — what was put back stands behind a hold that is due: it is taken before whatever waits behind it, oldest first.
 * A key that waits behind its dead letter goes on where the keeper passes those; when another is half way through it, with
 * that. $1 queue, $2 lane, $3 keys, $4 keeper, $5 note, $6 whether it passes dead letters
 */
export const SET_DUE = `
  INSERT INTO hold (queue, lane, key, until, reason, note)
  SELECT $1, $2, key, clock_timestamp(), 'operator', $5 FROM unnest($3::text[]) AS key
  ON CONFLICT (queue, lane, key) DO UPDATE
  SET until = CASE WHEN hold.kept_by IS NULL THEN EXCLUDED.until ELSE hold.until END,
      then_until = EXCLUDED.until, reason = EXCLUDED.reason
  WHERE $6::boolean AND hold.reason = 'dead-letter' AND ($4 = ANY (${KEPT_BY})) IS NOT TRUE`;

const OTHERS = `array_remove(${KEPT_BY}, $4)`;
const STAYS = `(hold.reason = 'dead-letter' OR ${OTHERS} <> '{}')`;

/** hold.letGo — of holds that we kept; that of one that died meanwhile stays its own. $1 queue, $2 lane, $3 keys, $4 keeper */
export const REMOVE_REQUEUE_HOLD = `
  UPDATE hold
  SET kept_by = NULLIF(array_to_string(${OTHERS}, ', '), ''), then_until = CASE WHEN ${STAYS} THEN then_until END,
      until = CASE WHEN ${STAYS} THEN until ELSE COALESCE(then_until, 'infinity') END,
      reason = CASE WHEN ${STAYS} OR note IS NULL THEN reason ELSE 'operator' END
  WHERE queue = $1 AND lane = $2 AND key = ANY ($3::text[]) AND $4 = ANY (${KEPT_BY})`;

/**
 * hold.endOfDeadLetter — it stands for those that died since it was set, and ends when the last of them is dealt with;
 * where an operator holds the key, too (the note), it goes on as theirs. $1 queue, $2 lane, $3 keys
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
