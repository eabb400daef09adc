const ALIVE = `member.seen_at >= clock_timestamp() - consumer_group.session_ms * interval '1 millisecond'`;

/**
 * observe.groups — how far each group is behind, from offsets: no messages are counted. A cursor that is behind costs one
 * probe, for the age of the first message that is not committed. Unowned: partitions with something to read that no live
 * member reads. Expired: messages that retention removed before they were handed out. $1 max dead letters counted
 */
export const OBSERVE_GROUPS = `
  WITH share AS MATERIALIZED (SELECT GREATEST(100, $1::int / GREATEST(1, count(*))) AS most_rows FROM consumer_group),
  seen AS MATERIALIZED (
    SELECT consumer_group.name, behind.*,
           (SELECT count(*) FROM group_member AS member
            WHERE member.group_number = consumer_group.number AND ${ALIVE}) AS members,
           (SELECT count(*) FROM (
              SELECT FROM rejection WHERE rejection.group_number = consumer_group.number AND rejection.fingerprint IS NOT NULL
              LIMIT (SELECT most_rows FROM share)) AS dead) AS dead
    FROM consumer_group CROSS JOIN LATERAL (
      SELECT COALESCE(sum(place.lag), 0) AS lag, COALESCE(sum(place.expired), 0) AS expired,
             COALESCE(GREATEST(0, extract(epoch FROM clock_timestamp() - min(entry.at))), 0) AS seconds,
             count(*) FILTER (WHERE place.lag > 0 AND NOT place.owned) AS unowned
      FROM (
        SELECT cursor.topic, cursor.partition, COALESCE(${ALIVE}, false) AS owned,
               GREATEST(cursor.committed + 1, tail.earliest) AS first,
               cursor.handed - cursor.committed
                 + GREATEST(0, last."offset" - GREATEST(cursor.handed, tail.earliest - 1)) AS lag,
               GREATEST(0, LEAST(last."offset", tail.earliest - 1) - cursor.handed) AS expired
        FROM group_cursor AS cursor
        JOIN topic_partition AS tail ON tail.topic = cursor.topic AND tail.partition = cursor.partition
        LEFT JOIN group_member AS member ON member.group_number = cursor.group_number AND member.id = cursor.owner
        CROSS JOIN LATERAL (SELECT COALESCE(cursor.bound, tail.next - 1) AS "offset") AS last
        WHERE cursor.group_number = consumer_group.number
      ) AS place
      LEFT JOIN LATERAL (
        SELECT entry.at FROM topic_entry AS entry
        WHERE place.lag > 0 AND entry.topic = place.topic AND entry.partition = place.partition AND entry."offset" >= place.first
        ORDER BY entry."offset" LIMIT 1
      ) AS entry ON true
    ) AS behind
  )

  SELECT measure.name, seen.name AS "group", NULL AS topic, measure.value FROM seen
  CROSS JOIN LATERAL (VALUES
    ('group_lag_messages', seen.lag), ('group_lag_seconds', seen.seconds), ('group_members', seen.members),
    ('group_partitions_unowned', seen.unowned), ('group_messages_expired', seen.expired), ('dead_letters', seen.dead)
  ) AS measure(name, value)
  UNION ALL
  SELECT 'topic_messages', NULL, topic.name, sum(tail.next - tail.earliest)
  FROM topic JOIN topic_partition AS tail ON tail.topic = topic.number GROUP BY topic.number`;
