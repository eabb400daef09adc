import { withinBytes } from '../http/page-bytes.ts';

const COLUMNS = `number, name, definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, generation, balanced,
  origin, created_at, updated_at, updated_by`;

/** groups.find — $1 name */
export const FIND_GROUP = `SELECT ${COLUMNS} FROM consumer_group WHERE name = $1`;

/** groups.lock — one change of members or assignments at a time. $1 name */
export const LOCK_GROUP = `${FIND_GROUP} FOR NO KEY UPDATE`;

/** groups.page — by name. $1 after, $2 limit */
export const GROUPS_PAGE = `${withinBytes(
  `SELECT ${COLUMNS} FROM consumer_group WHERE name > $1 ORDER BY name LIMIT $2`,
  'name',
)} ORDER BY name`;

/**
 * groups.put — $1 name, $2 definition, $3 topics, $4 session (ms), $5 max in flight, $6 attempts, $7 takeover, $8 on expired,
 * $9 origin, $10 by
 */
export const PUT_GROUP = `
  INSERT INTO consumer_group (name, definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, origin, created_by, updated_by)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)
  ON CONFLICT (name) DO UPDATE SET definition = EXCLUDED.definition, topics = EXCLUDED.topics, session_ms = EXCLUDED.session_ms,
    max_in_flight = EXCLUDED.max_in_flight, attempts = EXCLUDED.attempts, takeover = EXCLUDED.takeover,
    on_expired = EXCLUDED.on_expired, origin = EXCLUDED.origin, generation = consumer_group.generation + 1, updated_at = now(), updated_by = EXCLUDED.updated_by
  RETURNING ${COLUMNS}`;

/** groups.ofFile — those that the file defines. */
export const GROUPS_OF_FILE = `SELECT ${COLUMNS} FROM consumer_group WHERE origin = 'file' ORDER BY name`;

/** groups.release — the file no longer defines it, so the API may change it. $1 name, $2 by */
export const RELEASE_GROUP = `UPDATE consumer_group SET origin = 'api', updated_at = now(), updated_by = $2 WHERE name = $1`;

/** groups.deleteMembers — before the cursors: a poll locks them in this order, too. $1 number */
export const DELETE_MEMBERS = 'DELETE FROM group_member WHERE group_number = $1';

/** groups.delete — with its cursors, which are locked by now. $1 number */
export const DELETE_GROUP = `
  WITH cursors AS (DELETE FROM group_cursor WHERE group_number = $1)
  DELETE FROM consumer_group WHERE number = $1`;

/**
 * groups.addCursors — for partitions that the group has none in yet. `latest` means the end at the time of the definition: of a
 * topic that was created since, everything is read. $1 group, $2 start: earliest, latest, or a time
 */
export const ADD_CURSORS = `
  INSERT INTO group_cursor (group_number, topic, partition, start, committed, handed)
  SELECT consumer_group.number, topic.number, tail.partition, begin.at, begin.at - 1, begin.at - 1
  FROM consumer_group
  JOIN topic ON topic.name = ANY (consumer_group.topics || (consumer_group.name || '.revived')) AND topic.deleted_at IS NULL
  JOIN topic_partition AS tail ON tail.topic = topic.number
  CROSS JOIN LATERAL (
    SELECT CASE WHEN $2 = 'earliest' OR topic.kind = 'revived' THEN tail.earliest
      WHEN $2 = 'latest' AND topic.created_at > consumer_group.updated_at THEN tail.earliest WHEN $2 = 'latest' THEN tail.next
      ELSE COALESCE((SELECT entry."offset" FROM topic_entry AS entry
                     WHERE entry.topic = tail.topic AND entry.partition = tail.partition
                       AND entry.at >= NULLIF(NULLIF($2, 'earliest'), 'latest')::timestamptz
                     ORDER BY entry."offset" LIMIT 1), tail.next) END AS at
  ) AS begin
  WHERE consumer_group.number = $1
    AND NOT EXISTS (SELECT FROM group_cursor AS known WHERE known.group_number = consumer_group.number
                    AND known.topic = topic.number AND known.partition = tail.partition)`;

/** groups.dropCursors — of topics that the group no longer reads. $1 group */
export const DROP_CURSORS = `
  DELETE FROM group_cursor USING consumer_group
  WHERE group_cursor.group_number = $1 AND consumer_group.number = $1 AND NOT EXISTS (
    SELECT FROM topic WHERE topic.number = group_cursor.topic AND topic.deleted_at IS NULL
      AND topic.name = ANY (consumer_group.topics || (consumer_group.name || '.revived')))`;

const EXPIRED = `member.seen_at < clock_timestamp() - consumer_group.session_ms * interval '1 millisecond'`;

/**
 * groups.dropMembers — those that were silent for longer than the session, if they could be heard. $1 group, $2 for how long (ms)
 * the database has been there for this replica
 */
export const DROP_EXPIRED = `
  DELETE FROM group_member AS member USING consumer_group
  WHERE member.group_number = $1 AND consumer_group.number = $1 AND ${EXPIRED} AND consumer_group.session_ms < $2::float8
  RETURNING member.id, member.name`;

/** groups.members — in the order in which they joined. $1 group */
export const MEMBERS = 'SELECT id FROM group_member WHERE group_number = $1 ORDER BY joined_at, id';

/** groups.join — $1 group, $2 name */
export const ADD_MEMBER = 'INSERT INTO group_member (group_number, name) VALUES ($1, $2) RETURNING id';

/** groups.leave — $1 group, $2 member */
export const REMOVE_MEMBER = 'DELETE FROM group_member WHERE group_number = $1 AND id = $2';

/** groups.cursors — all of a group, locked in the order of all who lock them. $1 group */
export const LOCK_CURSORS = `
  SELECT topic, partition, start, bound, committed, handed, owner, former_owner, draining, fence, deaths, retry_to
  FROM group_cursor WHERE group_number = $1 ORDER BY topic, partition, start FOR NO KEY UPDATE`;

/**
 * groups.assign — a cursor that gets an owner gets a new fence. $1 group, $2 topics, $3 partitions, $4 starts, $5 new starts,
 * $6 committed, $7 handed, $8 owners, $9 former owners, $10 draining, $11 deaths, $12 retry to
 */
export const UPDATE_CURSORS = `
  UPDATE group_cursor AS cursor SET start = given.new_start, committed = given.committed, handed = given.handed,
         fence = CASE WHEN given.owner IS NOT NULL AND given.owner IS DISTINCT FROM cursor.owner THEN nextval('group_fence') ELSE cursor.fence END,
         owner = given.owner, former_owner = given.former_owner, draining = given.draining,
         deaths = given.deaths, retry_to = given.retry_to
  FROM unnest($2::integer[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::uuid[], $9::uuid[],
              $10::boolean[], $11::smallint[], $12::bigint[])
         AS given(topic, partition, start, new_start, committed, handed, owner, former_owner, draining, deaths, retry_to)
  WHERE cursor.group_number = $1 AND cursor.topic = given.topic AND cursor.partition = given.partition AND cursor.start = given.start`;

/**
 * groups.keepRemainder — what a former owner has in flight, as a cursor of its own with the fence it knows. Runs before the
 * whole cursor moves on. $1 group, $2 topic, $3 partition, $4 start
 */
export const SPLIT_CURSOR = `
  WITH whole AS (
    DELETE FROM group_cursor WHERE group_number = $1 AND topic = $2 AND partition = $3 AND start = $4 RETURNING *
  )
  INSERT INTO group_cursor (group_number, topic, partition, start, bound, committed, handed, handed_by, owner, former_owner, draining, fence, deaths, retry_to)
  SELECT group_number, topic, partition, committed + 1, handed, committed, handed, handed_by, owner, former_owner, true, fence, deaths, retry_to FROM whole
  UNION ALL
  SELECT group_number, topic, partition, handed + 1, NULL, handed, handed, NULL, NULL, owner, false, fence, 0, -1 FROM whole`;

/** groups.dropRemainders — cursors with a bound that are done. $1 group */
export const DROP_REMAINDERS =
  'DELETE FROM group_cursor WHERE group_number = $1 AND bound IS NOT NULL AND committed >= bound';

/** groups.balanced — $1 group, $2 added to the generation */
export const SET_BALANCED = `
  UPDATE consumer_group SET generation = generation + $2, balanced = generation + $2 WHERE number = $1`;
