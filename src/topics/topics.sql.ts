import { prepared } from '../database/prepared.ts';
import { withinBytes } from '../http/page-bytes.ts';

const COLUMNS = `number, name, revision, partitions, types, retention_ms, kind, origin, created_at, updated_at, updated_by`;

/** topics.revision — shows whether anything has changed. */
export const REVISION = prepared('SELECT COALESCE(max(revision), 0) AS revision FROM topic');

/** topics.current — fails by a division by zero if something has changed since. $1 revision */
export const STILL_CURRENT = prepared(
  'SELECT 1 / (COALESCE(max(revision), 0) <= $1::bigint)::integer FROM topic',
);

export const LIVE_TOPICS = `SELECT ${COLUMNS} FROM topic WHERE deleted_at IS NULL ORDER BY number`;

/** topics.find — $1 name */
export const FIND_TOPIC = `SELECT ${COLUMNS} FROM topic WHERE name = $1 AND deleted_at IS NULL`;

const NEXT_REVISION = '(SELECT COALESCE(max(revision), 0) + 1 FROM topic)';

/** topics.insert — $1 name, $2 partitions, $3 types, $4 retention (ms), $5 kind, $6 origin, $7 by */
export const INSERT_TOPIC = `
  WITH created AS (
    INSERT INTO topic (revision, name, partitions, types, retention_ms, kind, origin, created_by, updated_by)
    VALUES (${NEXT_REVISION}, $1, $2, $3, $4, $5, $6, $7, $7)
    RETURNING ${COLUMNS}
  ),
  opened AS (
    INSERT INTO topic_partition (topic, partition)
    SELECT created.number, generate_series(0, created.partitions - 1) FROM created
  )
  SELECT * FROM created`;

/** topics.replace — its partitions stay as they are. $1 name, $2 types, $3 retention (ms), $4 origin, $5 by */
export const REPLACE_TOPIC = `
  UPDATE topic SET revision = ${NEXT_REVISION}, types = $2, retention_ms = $3, origin = $4, updated_at = now(), updated_by = $5
  WHERE name = $1 AND deleted_at IS NULL
  RETURNING ${COLUMNS}`;

/** topics.release — the file no longer defines it, so the API may change it. $1 name, $2 by */
export const RELEASE_TOPIC = `
  UPDATE topic SET origin = 'api', updated_at = now(), updated_by = $2 WHERE name = $1 AND deleted_at IS NULL`;

/** topics.delete — its entries are removed later, in steps. $1 number, $2 by */
export const DELETE_TOPIC = `
  UPDATE topic SET revision = ${NEXT_REVISION}, deleted_at = now(), updated_at = now(), updated_by = $2
  WHERE number = $1 AND deleted_at IS NULL`;

/** topics.close — waits for transactions that append, in their order of locks; later ones append nothing. $1 topic */
export const DELETE_PARTITIONS = `
  WITH locked AS MATERIALIZED (
    SELECT topic, partition FROM topic_partition WHERE topic = $1 ORDER BY topic, partition FOR UPDATE
  )
  DELETE FROM topic_partition AS tail USING locked WHERE tail.topic = locked.topic AND tail.partition = locked.partition`;

/** topics.unassign — groups that read it assign their partitions again; also one that was deleted and is created again. $1 name */
export const UNBALANCE_GROUPS =
  'UPDATE consumer_group SET generation = generation + 1 WHERE $1 = ANY (topics)';

/** topics.forget — in the order in which polls and commits lock them. $1 topic */
export const DELETE_CURSORS = `
  WITH locked AS MATERIALIZED (
    SELECT group_number, topic, partition, start FROM group_cursor WHERE topic = $1
    ORDER BY group_number, topic, partition, start FOR UPDATE
  )
  DELETE FROM group_cursor AS cursor USING locked
  WHERE cursor.group_number = locked.group_number AND cursor.topic = locked.topic
    AND cursor.partition = locked.partition AND cursor.start = locked.start`;

const WITH_PARTITIONS = `
  (SELECT json_agg(json_build_object('partition', partition, 'earliest', earliest, 'next', next) ORDER BY partition)
   FROM topic_partition WHERE topic_partition.topic = topic.number) AS tails`;

/** topics.page — by name, with the ends of the partitions. $1 after, $2 limit */
export const TOPICS_PAGE = `${withinBytes(
  `SELECT ${COLUMNS}, ${WITH_PARTITIONS} FROM topic WHERE deleted_at IS NULL AND name > $1 ORDER BY name LIMIT $2`,
  'name',
)} ORDER BY name`;

/** topics.one — the same for one. $1 name */
export const TOPIC_WITH_TAILS = `SELECT ${COLUMNS}, ${WITH_PARTITIONS} FROM topic WHERE name = $1 AND deleted_at IS NULL`;

/** topics.kind — a topic belongs to a group, or no longer does. $1 name, $2 kind */
export const SET_KIND =
  'UPDATE topic SET kind = $2, updated_at = now() WHERE name = $1 AND deleted_at IS NULL';
