/** seek.live — how many members are alive. $1 group */
export const LIVE_MEMBERS = `
  SELECT count(*)::int AS count FROM group_member AS member JOIN consumer_group ON consumer_group.number = member.group_number
  WHERE member.group_number = $1 AND member.seen_at >= clock_timestamp() - consumer_group.session_ms * interval '1 millisecond'`;

/**
 * seek.targets — for each partition, where the group is and where it would go: never beyond what the log has.
 * $1 group, $2 topic or null, $3 partition or null, $4 earliest, latest, offset or time, $5 the offset, $6 the time
 */
export const SEEK_TARGETS = `
  SELECT topic.name AS topic, tail.topic AS number, tail.partition,
         (SELECT min(cursor.committed) FROM group_cursor AS cursor
          WHERE cursor.group_number = $1 AND cursor.topic = tail.topic AND cursor.partition = tail.partition) + 1 AS "from",
         CASE $4 WHEN 'earliest' THEN tail.earliest WHEN 'latest' THEN tail.next
           WHEN 'offset' THEN LEAST(GREATEST($5::bigint, tail.earliest), tail.next)
           ELSE COALESCE((SELECT entry."offset" FROM topic_entry AS entry
                          WHERE entry.topic = tail.topic AND entry.partition = tail.partition AND entry.at >= $6::timestamptz
                          ORDER BY entry."offset" LIMIT 1), tail.next) END AS "to"
  FROM topic JOIN topic_partition AS tail ON tail.topic = topic.number
  WHERE topic.deleted_at IS NULL
    AND topic.number IN (SELECT cursor.topic FROM group_cursor AS cursor WHERE cursor.group_number = $1)
    AND ($2::text IS NULL OR topic.name = $2) AND ($3::smallint IS NULL OR tail.partition = $3)
  ORDER BY topic.name, tail.partition`;

/** seek.move — new cursors with new fences, without an owner. $1 group, $2 topics, $3 partitions, $4 offsets */
export const SEEK = `
  WITH gone AS (
    DELETE FROM group_cursor AS cursor USING unnest($2::integer[], $3::smallint[]) AS given(topic, partition)
    WHERE cursor.group_number = $1 AND cursor.topic = given.topic AND cursor.partition = given.partition
    RETURNING cursor.topic, cursor.partition, cursor.bound, cursor.former_owner
  )
  INSERT INTO group_cursor (group_number, topic, partition, start, committed, handed, former_owner, fence)
  SELECT $1, given.topic, given.partition, given."offset", given."offset" - 1, given."offset" - 1, gone.former_owner, nextval('group_fence')
  FROM unnest($2::integer[], $3::smallint[], $4::bigint[]) AS given(topic, partition, "offset")
  JOIN gone ON gone.topic = given.topic AND gone.partition = given.partition AND gone.bound IS NULL`;
