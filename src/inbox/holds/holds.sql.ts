import { withinBytes } from '../../http/page-bytes.ts';

/** Without end, until a dead letter is revived or discarded, or a requeuer has finished the key. */
const INDEFINITE = `(hold.reason = 'dead-letter' AND hold.until > clock_timestamp() OR hold.kept_by IS NOT NULL)`;

/**
 * hold.put — by an operator. An indefinite hold for another reason is not shortened by this, only by ending it. The note
 * then shows that an operator holds the key too: when the other reason is gone, the key stays held until the operator's end.
 * $1 key, $2 lane, $3 until or null, $4 note
 */
export const PUT_HOLD = `
  INSERT INTO hold (queue, key, lane, until, reason, note)
  VALUES ('inbox', $1, $2, COALESCE($3::timestamptz, 'infinity'), 'operator', $4)
  ON CONFLICT (queue, lane, key) DO UPDATE
  SET until = CASE WHEN ${INDEFINITE} THEN hold.until ELSE EXCLUDED.until END,
      then_until = CASE WHEN ${INDEFINITE} THEN EXCLUDED.until END,
      reason = CASE WHEN ${INDEFINITE} THEN hold.reason ELSE EXCLUDED.reason END,
      note = EXCLUDED.note, set_at = CASE WHEN ${INDEFINITE} THEN hold.set_at ELSE now() END`;

/** hold.end — due from now on; the lane's owner deletes it when no row is held by it any longer. */
export const END_HOLD = `
  UPDATE hold SET until = clock_timestamp(), kept_by = NULL, then_until = NULL
  WHERE queue = 'inbox' AND lane = $1 AND key = $2 AND until > clock_timestamp()`;

/**
 * hold.list — in (lane, key) order; the reason is the operator's own text where there is one.
 * $1 limit, $2 after lane, $3 after key, $4 key or null, $5 reason or null
 */
export const LIST_HOLDS = `${withinBytes(
  `SELECT hold.key, hold.lane, NULLIF(hold.until, 'infinity') AS until, hold.reason AS kind,
         COALESCE(hold.note, hold.reason) AS reason, hold.set_at
  FROM hold
  WHERE hold.queue = 'inbox' AND (hold.lane, hold.key) > ($2::integer, $3::text)
    AND ($4::text IS NULL OR hold.key = $4) AND ($5::text IS NULL OR hold.reason = $5) AND hold.until > clock_timestamp()
  ORDER BY hold.lane, hold.key LIMIT $1`,
  'lane, key',
)} ORDER BY lane, key`;

/** why — everything that one message may wait for, in one query. $1 position */
export const WHY = `
  SELECT message.id, message.status, message.key, message.due_at, message.error,
         NULLIF(hold.until, 'infinity') AS hold_until, hold.reason AS hold_kind,
         COALESCE(hold.note, hold.reason) AS hold_reason, hold.set_at AS hold_since,
         (SELECT dead.id FROM inbox AS dead
          WHERE dead.lane = message.lane AND dead.key = message.key AND dead.fingerprint IS NOT NULL
            AND dead.lapsed_at >= hold.set_at
          ORDER BY dead.position DESC LIMIT 1) AS dead_ahead,
         lane.replica, lane.leased_until > clock_timestamp() AS leased, NULLIF(lane.leased_until, '-infinity') AS leased_until,
         (SELECT count(*)::int FROM (
            SELECT FROM inbox AS ahead
            WHERE (ahead.lane, ahead.position) > (message.lane, 0) AND (ahead.lane, ahead.position) < (message.lane, message.position)
              AND ahead.settled_at IS NULL AND ahead.waits IS NULL LIMIT 10000) AS some_ahead) AS ahead
  FROM inbox AS message
  JOIN lane ON lane.queue = 'inbox' AND lane.lane = message.lane
  LEFT JOIN hold ON hold.queue = 'inbox' AND hold.lane = message.lane AND hold.key = message.key
  WHERE message.position = $1`;
