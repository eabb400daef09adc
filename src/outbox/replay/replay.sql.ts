export const INSERT_REPLAY = `
  INSERT INTO replay (listener, filter, matched, created_by) VALUES ($1, $2, 0, $3) RETURNING id`;

/**
 * replay.match — every settled delivery of the listener that the filter means. One look at the whole time span; what is
 * still waiting is sent anyway, what was discarded is not wanted. $1 replay, $2 listener, $3 since, $4 until, $5 types as patterns of LIKE, $6 keys,
 * $7 only failed
 */
export const MATCH_DELIVERIES = `
  INSERT INTO replay_delivery (replay, lane, key, position)
  SELECT $1, outbox.lane, outbox.key, outbox.position
  FROM outbox JOIN inbox ON inbox.position = outbox.message
  WHERE outbox.listener = $2 AND outbox.settled_at IS NOT NULL AND outbox.status <> 'discarded'
    AND outbox.created_at >= $3 AND outbox.created_at < COALESCE($4::timestamptz, now())
    AND ($5::text[] IS NULL OR inbox.type LIKE ANY ($5)) AND ($6::text[] IS NULL OR inbox.key = ANY ($6))
    AND (NOT $7::boolean OR outbox.status = 'dead')`;

export const SET_MATCHED = 'UPDATE replay SET matched = $2 WHERE id = $1';

/**
 * replay.unfinished — each listener's own: one that is down must not keep the others' from going on. That of a listener
 * that is paused, disabled or deleted waits with it.
 */
export const UNFINISHED = `
  SELECT replay.id FROM replay JOIN listener ON listener.number = replay.listener
  WHERE replay.done_at IS NULL AND listener.state = 'active' AND listener.deleted_at IS NULL ORDER BY replay.id`;

/** replay.take — unless another replica works at it. $1 replay */
export const TAKE_REPLAY = `SELECT id FROM replay WHERE id = $1 AND done_at IS NULL FOR UPDATE SKIP LOCKED`;

/** replay.inFlight — reopened and not settled again, counted up to $2. $1 replay */
export const IN_FLIGHT = `
  SELECT count(*)::int AS waiting FROM (
    SELECT FROM outbox WHERE replay = $1 AND settled_at IS NULL LIMIT $2) AS on_its_way`;

/**
 * replay.lock — the first lane with something to reopen, locked: nobody claims, settles or clears holds in it until we
 * are done, so that a hold is not cleared away in the moment something is put behind it. One lane at a time, so that
 * nobody waits in a circle. $1 replay
 */
export const LOCK_LANE = `
  SELECT lane.lane FROM lane
  WHERE lane.queue = 'outbox' AND lane.lane = (
    SELECT lane FROM replay_delivery WHERE replay = $1 AND reopened_at IS NULL ORDER BY replay, lane, key LIMIT 1)
  FOR NO KEY UPDATE`;

/**
 * replay.reopen — all deliveries of the next keys of a lane wait again, behind a hold that is due: the holder of the lane
 * takes them oldest first, and live deliveries of the key wait behind them. That they were sent before is on record.
 * A key that waits behind its dead letter goes on: that is what is sent again. $1 replay, $2 lane, $3 most keys
 */
export const REOPEN = `
  WITH chosen AS (
    SELECT DISTINCT key FROM replay_delivery
    WHERE replay = $1 AND lane = $2 AND reopened_at IS NULL ORDER BY key LIMIT $3
  ),
  item AS (
    UPDATE replay_delivery SET reopened_at = now() FROM chosen
    WHERE replay_delivery.replay = $1 AND replay_delivery.lane = $2 AND replay_delivery.key = chosen.key
      AND replay_delivery.reopened_at IS NULL
    RETURNING replay_delivery.position
  ),
  earlier AS (
    SELECT outbox.position, outbox.attempt, outbox.answered, outbox.settled_at, outbox.duration_ms, outbox.status
    FROM outbox JOIN item USING (position) WHERE outbox.settled_at IS NOT NULL AND outbox.status <> 'discarded'
  ),
  recorded AS (
    INSERT INTO attempt (delivery, at, attempt, status, error, duration_ms)
    SELECT position, settled_at, attempt, answered, 'delivered; sent again by replay ' || $1, duration_ms
    FROM earlier WHERE status = 'finished'
  ),
  reopened AS (
    UPDATE outbox SET status = 'held', waits = 'held', settled_at = NULL, lapsed_at = NULL, attempt = 0,
           answered = NULL, duration_ms = NULL, replay = $1
    FROM earlier WHERE outbox.position = earlier.position
    RETURNING outbox.lane, outbox.key, earlier.status
  ),
  held AS (
    INSERT INTO hold (queue, key, lane, until, reason, note)
    SELECT 'outbox', key, lane, clock_timestamp(), 'operator', 'replay ' || $1 FROM reopened GROUP BY lane, key
    ON CONFLICT (queue, lane, key) DO UPDATE SET until = clock_timestamp() WHERE hold.reason = 'dead-letter'
  )
  SELECT count(*)::int AS reopened FROM reopened`;

export const MARK_DONE = `
  UPDATE replay SET done_at = now() WHERE id = $1 AND done_at IS NULL
    AND NOT EXISTS (SELECT FROM replay_delivery WHERE replay = $1 AND reopened_at IS NULL)`;

/** replay.progress — what was removed meanwhile, because its time was over, is done with. $1 replay, $2 listener */
export const PROGRESS = `
  SELECT replay.id, replay.matched, replay.created_at, replay.created_by, replay.done_at, replay.filter,
         count(*) FILTER (WHERE item.position IS NOT NULL AND item.reopened_at IS NULL)::int AS closed,
         count(*) FILTER (WHERE item.reopened_at IS NOT NULL AND outbox.status IN ('pending', 'processing', 'held'))::int AS waiting,
         count(*) FILTER (WHERE item.reopened_at IS NOT NULL AND outbox.status = 'dead')::int AS dead
  FROM replay
  LEFT JOIN replay_delivery AS item ON item.replay = replay.id
  LEFT JOIN outbox ON outbox.position = item.position
  WHERE replay.id = $1 AND replay.listener = $2 GROUP BY replay.id`;
