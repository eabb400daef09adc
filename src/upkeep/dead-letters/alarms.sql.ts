/** alarms.lock — only one replica checks at a time. */
export const TRY_ALARM_LOCK = `SELECT pg_try_advisory_xact_lock(hashtext('sluice'), hashtext('deadLetters.alarms')) AS mine`;

/**
 * alarms.count — the number of dead letters of each queue that has any or was reported, counted up to the highest threshold.
 * $1 max count
 */
export const COUNT_QUEUES = `
  WITH counted AS (
    SELECT 'inbox' AS queue, NULL::text AS listener, NULL::text AS "group", count(*)::int AS count
    FROM (SELECT FROM inbox WHERE fingerprint IS NOT NULL LIMIT $1) AS dead
    UNION ALL
    SELECT 'outbox/' || listener.name, listener.name, NULL, dead.count
    FROM listener CROSS JOIN LATERAL (
      SELECT count(*)::int AS count FROM (
        SELECT FROM outbox WHERE outbox.listener = listener.number AND outbox.fingerprint IS NOT NULL LIMIT $1) AS some_dead
    ) AS dead
    UNION ALL
    SELECT 'group/' || consumer_group.name, NULL, consumer_group.name, dead.count
    FROM consumer_group CROSS JOIN LATERAL (
      SELECT count(*)::int AS count FROM (
        SELECT FROM rejection
        WHERE rejection.group_number = consumer_group.number AND rejection.fingerprint IS NOT NULL LIMIT $1) AS some_dead
    ) AS dead
  )
  SELECT counted.*, COALESCE(alarm.threshold, 0) AS reported
  FROM counted LEFT JOIN dead_letter_alarm AS alarm USING (queue)
  WHERE counted.count > 0 OR alarm.threshold > 0`;

/** alarms.setReported — $1 queue, $2 threshold; 0: none */
export const SET_REPORTED = `
  INSERT INTO dead_letter_alarm (queue, threshold) VALUES ($1, $2)
  ON CONFLICT (queue) DO UPDATE SET threshold = EXCLUDED.threshold`;
