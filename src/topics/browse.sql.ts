import { entryJson } from './entry-json.ts';

/** Why a message is in the topic of a group: its rejection. Empty for other topics. */
const REJECTION = `COALESCE((
  SELECT ',"reason":' || to_json(reason)::text || ',"attempts":' || attempts || ',"origin":' || json_build_object(
           'topic', origin.name, 'partition', rejection.partition, 'offset', rejection."offset")::text
  FROM rejection LEFT JOIN topic AS origin ON origin.number = rejection.topic
  WHERE rejection.dead_topic = entry.topic AND rejection.dead_offset = entry."offset"), '')`;

/**
 * topics.browse — entries from an offset on, up to a size; the first one whatever its size. There is always one row.
 * $1 topic, $2 partition, $3 from, $4 limit, $5 max bytes
 */
export const BROWSE = `
  WITH entry AS MATERIALIZED (
    SELECT * FROM (
      SELECT topic, partition, "offset", message, row_number() OVER forward AS nth, sum(bytes) OVER forward AS total
      FROM topic_entry WHERE topic = $1 AND partition = $2 AND "offset" >= $3
      WINDOW forward AS (ORDER BY "offset" ROWS UNBOUNDED PRECEDING) ORDER BY "offset" LIMIT $4
    ) AS forward WHERE nth = 1 OR total <= $5
  )
  SELECT tail.earliest, tail.next, found.first, found.last, found.count, found.messages
  FROM topic_partition AS tail CROSS JOIN (
    SELECT min(entry."offset") AS first, max(entry."offset") AS last, count(*)::int AS count,
           string_agg(${entryJson('entry', 'inbox', REJECTION)}, ',' ORDER BY entry."offset") AS messages
    FROM entry JOIN inbox ON inbox.position = entry.message
  ) AS found
  WHERE tail.topic = $1 AND tail.partition = $2`;
