/** groups.viewMembers — $1 group */
export const VIEW_MEMBERS = `
  SELECT member.id, member.name, member.joined_at, member.seen_at,
         member.seen_at >= clock_timestamp() - consumer_group.session_ms * interval '1 millisecond' AS alive,
         COALESCE(sum(cursor.handed - cursor.committed), 0)::bigint AS in_flight,
         count(cursor.partition) FILTER (WHERE cursor.bound IS NULL AND NOT cursor.draining)::int AS partitions
  FROM group_member AS member JOIN consumer_group ON consumer_group.number = member.group_number
  LEFT JOIN group_cursor AS cursor ON cursor.group_number = member.group_number AND cursor.owner = member.id
  WHERE member.group_number = $1 GROUP BY member.group_number, member.id, consumer_group.session_ms
  ORDER BY member.joined_at, member.id LIMIT 1000`;

/** groups.viewPartitions — one row per cursor, with the end of the log and the age of the first message not committed. $1 group */
export const VIEW_PARTITIONS = `
  SELECT topic.name AS topic, cursor.partition, cursor.start, cursor.bound, cursor.committed, cursor.handed, cursor.fence,
         cursor.owner, cursor.draining, cursor.deaths, cursor.retry_to, tail.earliest, tail.next,
         (SELECT EXTRACT(epoch FROM clock_timestamp() - entry.at)::float8 FROM topic_entry AS entry
          WHERE entry.topic = cursor.topic AND entry.partition = cursor.partition AND entry."offset" > cursor.committed
          ORDER BY entry."offset" LIMIT 1) AS lag_seconds,
         member.seen_at < clock_timestamp() - consumer_group.session_ms * interval '1 millisecond' AS owner_silent
  FROM group_cursor AS cursor
  JOIN consumer_group ON consumer_group.number = cursor.group_number
  JOIN topic ON topic.number = cursor.topic
  JOIN topic_partition AS tail ON tail.topic = cursor.topic AND tail.partition = cursor.partition
  LEFT JOIN group_member AS member ON member.group_number = cursor.group_number AND member.id = cursor.owner
  WHERE cursor.group_number = $1 ORDER BY topic.name, cursor.partition, cursor.start`;

/**
 * groups.viewLags — of each group what a list shows: a group can have 12,800 partitions, too many to load for each of a page.
 * Counted as `partitionView` does. $1 groups
 */
export const VIEW_LAGS = `
  SELECT listed.number, behind.lag, behind.lag_seconds AS "lagSeconds",
         (SELECT count(*)::int FROM group_member AS member JOIN consumer_group ON consumer_group.number = member.group_number
          WHERE member.group_number = listed.number
            AND member.seen_at >= clock_timestamp() - consumer_group.session_ms * interval '1 millisecond') AS members
  FROM unnest($1::integer[]) AS listed(number)
  CROSS JOIN LATERAL (
    SELECT COALESCE(sum(place.lag), 0)::bigint AS lag,
           round(GREATEST(0, COALESCE(EXTRACT(epoch FROM clock_timestamp() - min(entry.at)), 0)), 3)::float8 AS lag_seconds
    FROM (
      SELECT cursor.topic, cursor.partition, cursor.committed,
             cursor.handed - cursor.committed
               + GREATEST(0, COALESCE(cursor.bound, tail.next - 1) - GREATEST(cursor.handed, tail.earliest - 1)) AS lag
      FROM group_cursor AS cursor
      JOIN topic ON topic.number = cursor.topic
      JOIN topic_partition AS tail ON tail.topic = cursor.topic AND tail.partition = cursor.partition
      WHERE cursor.group_number = listed.number
    ) AS place
    LEFT JOIN LATERAL (
      SELECT entry.at FROM topic_entry AS entry
      WHERE place.lag > 0 AND entry.topic = place.topic AND entry.partition = place.partition
        AND entry."offset" > place.committed
      ORDER BY entry."offset" LIMIT 1
    ) AS entry ON true
  ) AS behind`;

/**
 * groups.ofMessage — where a message is in the logs that groups read, and how far each group is: by the first cursor that ends
 * at the message or later. If that starts after the message, the group is past it. $1 position of the message
 */
export const GROUPS_OF_MESSAGE = `
  SELECT consumer_group.name AS "group", topic.name AS topic, entry.partition, entry."offset", cursor.start, cursor.committed, cursor.handed,
         cursor.owner, cursor.draining, member.name AS member_name,
         member.seen_at >= clock_timestamp() - consumer_group.session_ms * interval '1 millisecond' AS alive,
         rejection.reason, rejection.status AS ruling
  FROM topic_entry AS entry
  JOIN topic ON topic.number = entry.topic AND topic.deleted_at IS NULL
  JOIN group_cursor AS cursor ON cursor.topic = entry.topic AND cursor.partition = entry.partition
   AND entry."offset" <= COALESCE(cursor.bound, entry."offset") AND NOT EXISTS (
     SELECT FROM group_cursor AS lower
     WHERE lower.group_number = cursor.group_number AND lower.topic = cursor.topic AND lower.partition = cursor.partition
       AND lower.start < cursor.start AND entry."offset" <= COALESCE(lower.bound, entry."offset"))
  JOIN consumer_group ON consumer_group.number = cursor.group_number
  LEFT JOIN group_member AS member ON member.group_number = cursor.group_number AND member.id = cursor.owner
  LEFT JOIN LATERAL (
    SELECT reason, status FROM rejection
    WHERE rejection.group_number = cursor.group_number AND rejection.topic = entry.topic
      AND rejection.partition = entry.partition AND rejection."offset" = entry."offset"
    ORDER BY rejection.position DESC LIMIT 1
  ) AS rejection ON true
  WHERE entry.message = $1 ORDER BY consumer_group.name, topic.name, entry."offset" LIMIT 1000`;
