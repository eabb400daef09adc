/**
 * retention.partitions — those of live topics whose first message is past its retention. Within a partition later offsets
 * are later in time, so the first message decides. $1 topics, $2 their retentions (ms)
 */
export const OLD_PARTITIONS = `
  SELECT tail.topic, tail.partition, tail.earliest, kept.ms
  FROM unnest($1::integer[], $2::bigint[]) AS kept(topic, ms)
  JOIN topic_partition AS tail ON tail.topic = kept.topic
  CROSS JOIN LATERAL (
    SELECT entry.at FROM topic_entry AS entry
    WHERE entry.topic = tail.topic AND entry.partition = tail.partition AND entry."offset" >= tail.earliest
    ORDER BY entry."offset" LIMIT 1
  ) AS first
  WHERE first.at < now() - kept.ms * interval '1 millisecond'
  ORDER BY tail.topic, tail.partition`;

/**
 * retention.entries — removes the first messages of a partition, up to the first one that is not past its retention, and
 * returns which offset is the first now. $1 topic, $2 partition, $3 the first offset, $4 retention (ms), $5 max messages
 */
export const REMOVE_ENTRIES = `
  WITH head AS MATERIALIZED (
    SELECT "offset", at < now() - $4::bigint * interval '1 millisecond' AS old
    FROM topic_entry WHERE topic = $1 AND partition = $2 AND "offset" >= $3 ORDER BY "offset" LIMIT $5
  ),
  kept AS MATERIALIZED (
    SELECT COALESCE(min("offset") FILTER (WHERE NOT old), max("offset") + 1, $3::bigint) AS "offset" FROM head
  ),
  removed AS (
    DELETE FROM topic_entry
    WHERE topic = $1 AND partition = $2 AND "offset" >= $3 AND "offset" < (SELECT "offset" FROM kept)
    RETURNING 1
  )
  SELECT kept."offset" AS earliest, (SELECT count(*)::int FROM removed) AS removed FROM kept`;

/** retention.rejections — of dead letters that were just removed. $1 dead topic, $2 the first offset that is kept */
export const REMOVE_REJECTIONS = 'DELETE FROM rejection WHERE dead_topic = $1 AND dead_offset < $2';

/**
 * retention.moveEarliest — the last statement before the COMMIT: whoever appends to the partition waits for this row.
 * $1 topic, $2 partition, $3 offset
 */
export const MOVE_EARLIEST = 'UPDATE topic_partition SET earliest = $3 WHERE topic = $1 AND partition = $2';

export const DELETED_TOPICS = 'SELECT number FROM topic WHERE deleted_at IS NOT NULL ORDER BY number';

/** retention.deletedTopic — its messages and, if it had dead letters of a group, their rejections. $1 topic, $2 max rows */
export const REMOVE_ENTRIES_OF = `
  DELETE FROM topic_entry WHERE ctid = ANY (ARRAY(SELECT ctid FROM topic_entry WHERE topic = $1 LIMIT $2))`;
export const REMOVE_REJECTIONS_OF = `
  DELETE FROM rejection WHERE ctid = ANY (ARRAY(SELECT ctid FROM rejection WHERE dead_topic = $1 LIMIT $2))`;

/**
 * retention.topics — deleted topics that have nothing left. The one that was changed last stays until another change: by its
 * revision, replicas notice changes, and the same revision must not be used twice. One that dead letters came from stays
 * for its name.
 */
export const REMOVE_TOPICS = `
  DELETE FROM topic
  WHERE deleted_at IS NOT NULL AND revision < (SELECT max(revision) FROM topic)
    AND NOT EXISTS (SELECT FROM topic_entry AS entry WHERE entry.topic = topic.number)
    AND NOT EXISTS (SELECT FROM rejection WHERE rejection.topic = topic.number)`;
