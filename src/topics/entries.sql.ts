import { prepared } from '../database/prepared.ts';

/**
 * topics.lock — the partitions that are appended to next, in one order for all writers: an UPDATE alone locks in any order,
 * and two writers would deadlock. A statement of its own, so that the one after it sees the offsets of the writers before.
 * $1 topics, $2 partitions
 */
export const LOCK_PARTITIONS = prepared(`
  SELECT count(*) FROM (
    SELECT FROM unnest($1::integer[], $2::smallint[]) AS wanted(topic, partition)
    JOIN topic_partition AS tail ON tail.topic = wanted.topic AND tail.partition = wanted.partition
    ORDER BY tail.topic, tail.partition FOR NO KEY UPDATE OF tail
  ) AS locked`);

/**
 * topics.append — entries with the next offsets of their partitions, in the given order. A partition of a topic that was
 * deleted meanwhile is not there, and gets none. $1 topics, $2 partitions, $3 positions of the messages, $4 bytes
 */
export const APPEND = prepared(`
  WITH entry AS MATERIALIZED (
    SELECT *, row_number() OVER (PARTITION BY topic, partition ORDER BY ordinal) AS nth
    FROM unnest($1::integer[], $2::smallint[], $3::bigint[], $4::integer[])
           WITH ORDINALITY AS given(topic, partition, message, bytes, ordinal)
  ),
  counted AS MATERIALIZED (SELECT topic, partition, count(*) AS total FROM entry GROUP BY topic, partition),
  moved AS (
    UPDATE topic_partition AS tail SET next = tail.next + counted.total FROM counted
    WHERE tail.topic = counted.topic AND tail.partition = counted.partition
    RETURNING tail.topic, tail.partition, tail.next - counted.total AS first
  )
  INSERT INTO topic_entry (topic, partition, "offset", message, bytes)
  SELECT entry.topic, entry.partition, moved.first + entry.nth - 1, entry.message, entry.bytes
  FROM moved JOIN entry ON entry.topic = moved.topic AND entry.partition = moved.partition
  ORDER BY entry.topic, entry.partition, entry.nth`);
