/*
 * Replicas write successes every few seconds, with the time that has passed since: a refusal that came after a success, on
 * any replica, is not reset by it.
 */

/**
 * health.refused — returns how many refusals in a row there were since the listener was last resumed; no row if the listener
 * was changed after the call was made: it was disabled meanwhile, perhaps resumed, and this is a late response to a call that
 * was in flight. A success of another replica since the last refusal that is not written yet shows in the latest deliveries.
 * $1 listener, $2 ms since a success of this replica that is not written yet, or null, $3 its revision when the call was made
 */
export const COUNT_REFUSAL = `
  INSERT INTO listener_health (listener, refusals, refused_at)
  SELECT number, 1, clock_timestamp() FROM listener
  WHERE number = $1 AND revision = $3
  ON CONFLICT (listener) DO UPDATE
  SET refused_at = clock_timestamp(),
      refusals = CASE WHEN listener_health.refused_at < clock_timestamp() - $2::float8 * interval '1 millisecond'
                        OR listener_health.refused_at < (SELECT state_since FROM listener WHERE number = $1)
                        OR EXISTS (
                          SELECT FROM (SELECT status, settled_at FROM outbox WHERE listener = $1
                                       ORDER BY position DESC LIMIT 1000) AS latest
                          WHERE latest.status = 'finished' AND latest.settled_at > listener_health.refused_at)
                      THEN 1 ELSE listener_health.refusals + 1 END
  RETURNING refusals`;

/** health.succeeded — $1 listeners, $2 ms since their last success */
export const NOTE_SUCCESS = `
  INSERT INTO listener_health (listener, last_success_at)
  SELECT listener, clock_timestamp() - age * interval '1 millisecond'
  FROM unnest($1::integer[], $2::float8[]) AS noted(listener, age)
  ON CONFLICT (listener) DO UPDATE
  SET last_success_at = GREATEST(listener_health.last_success_at, EXCLUDED.last_success_at),
      refusals = CASE WHEN listener_health.refused_at > EXCLUDED.last_success_at THEN listener_health.refusals ELSE 0 END`;

/**
 * health.failingForDays — no success for $1 ms although at least $2 deliveries became dead letters in that time. Counted from
 * when the listener was created or resumed: resuming it gives it the same time again. A listener that is pulled has no calls that
 * could succeed.
 */
export const FAILING_FOR_DAYS = `
  SELECT listener.number AS listener FROM listener
  LEFT JOIN listener_health AS health ON health.listener = listener.number
  CROSS JOIN LATERAL (
    SELECT GREATEST(health.last_success_at, listener.state_since) AS at) AS since
  WHERE listener.state = 'active' AND listener.deleted_at IS NULL AND listener.definition ->> 'mode' IS DISTINCT FROM 'pull'
    AND since.at < now() - $1 * interval '1 millisecond'
    AND (SELECT count(*) FROM (
           SELECT FROM outbox WHERE outbox.listener = listener.number AND outbox.lapsed_at > since.at
           LIMIT $2) AS given_up) >= $2`;
