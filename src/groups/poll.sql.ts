import { prepared } from '../database/prepared.ts';
import { entryJson } from '../topics/entry-json.ts';
import { DEATHS_AFTER_COMMIT, IS_ALONE } from './cursor.ts';

const GROUP = '(SELECT number FROM consumer_group WHERE name = $1)';

/** poll.touch — a heartbeat; the poll that may hand out from now on, unless it is a heartbeat (null). $1 group, $2 member, $3 poll */
export const TOUCH = prepared(`
  UPDATE group_member SET seen_at = clock_timestamp(), poll = COALESCE($3::uuid, poll)
  WHERE group_number = ${GROUP} AND id = $2::uuid
  RETURNING 1 AS touched`);

/*
 * The connection of a consumer that is frozen, or whose machine is gone, may stand for long: that its poll is open says nothing
 * about it. So a session counts from the last request. Two exceptions, for consumers that do nothing beside their poll: one that
 * waits for longer than half a session has half a session left at its end, and one that has nothing in flight and is woken has a
 * session for what it gets.
 */

/**
 * poll.touchWaiting — before a poll hands out that has waited, unless a later poll of the member replaced it.
 * $1 group, $2 member, $3 poll, $4 it was woken
 */
export const TOUCH_WAITING = prepared(`
  UPDATE group_member AS member
  SET seen_at = CASE WHEN $4::boolean AND NOT EXISTS (
                       SELECT FROM group_cursor AS cursor
                       WHERE cursor.group_number = member.group_number AND cursor.owner = member.id AND cursor.handed > cursor.committed)
                     THEN clock_timestamp() ELSE seen_at END
  WHERE group_number = ${GROUP} AND id = $2::uuid AND poll = $3::uuid
  RETURNING 1 AS touched`);

/**
 * poll.heartbeats — of the members whose polls wait at this replica: not more often than necessary, and up to half a session
 * before the end of the wait. A row that is locked gets a heartbeat of its own, or is removed: it is not waited for, because two
 * statements that lock members in different orders would wait for each other. $1 groups, $2 members, $3 ms until the end of their waits
 */
export const TOUCH_ALL = `
  WITH due AS MATERIALIZED (
    SELECT member.group_number, member.id, LEAST(now.at, last.at) AS at
    FROM unnest($1::integer[], $2::uuid[], $3::float8[]) AS waiting(group_number, id, left_ms)
    JOIN consumer_group ON consumer_group.number = waiting.group_number
    JOIN group_member AS member ON member.group_number = waiting.group_number AND member.id = waiting.id
    CROSS JOIN (SELECT clock_timestamp() AS at) AS now
    CROSS JOIN LATERAL (
      SELECT now.at + (waiting.left_ms - consumer_group.session_ms / 2) * interval '1 millisecond' AS at
    ) AS last
    WHERE LEAST(now.at, last.at) > member.seen_at
      AND (last.at <= now.at OR member.seen_at < now.at - consumer_group.session_ms * interval '1 millisecond' / 4)
    FOR NO KEY UPDATE OF member SKIP LOCKED
  )
  UPDATE group_member AS member SET seen_at = due.at FROM due
  WHERE member.group_number = due.group_number AND member.id = due.id`;

const ITEMS = `
  item AS MATERIALIZED (
    SELECT given.ordinal, given.partition, given.fence, given."offset", topic.number AS topic
    FROM unnest($3::text[], $4::smallint[], $5::bigint[], $6::bigint[])
           WITH ORDINALITY AS given(topic, partition, fence, "offset", ordinal)
    LEFT JOIN topic ON topic.name = given.topic AND topic.deleted_at IS NULL
  ),
  owned AS MATERIALIZED (
    SELECT item.ordinal, item."offset", cursor.topic, cursor.partition, cursor.start, cursor.committed, cursor.handed,
           cursor.deaths, cursor.retry_to
    FROM item JOIN group_cursor AS cursor
      ON cursor.group_number = ${GROUP} AND cursor.topic = item.topic AND cursor.partition = item.partition
     AND cursor.fence = item.fence AND cursor.owner = $2::uuid
    ORDER BY cursor.topic, cursor.partition, cursor.start FOR NO KEY UPDATE OF cursor
  )`;
const SAME_CURSOR = (cursor: string, other: string) => `
  ${cursor}.group_number = ${GROUP} AND ${cursor}.topic = ${other}.topic AND ${cursor}.partition = ${other}.partition
  AND ${cursor}.start = ${other}.start`;

/**
 * poll.commit — moves offsets forward, never back. One row per item: its outcome and the stored offset (null: fenced).
 * $1 group, $2 member, $3 topics, $4 partitions, $5 fences, $6 offsets
 */
export const COMMIT_OFFSETS = prepared(`
  WITH ${ITEMS},
  moved AS (
    UPDATE group_cursor AS cursor SET committed = owned."offset", deaths = ${DEATHS_AFTER_COMMIT('cursor', 'owned."offset"')}
    FROM owned WHERE ${SAME_CURSOR('cursor', 'owned')}
      AND owned."offset" > cursor.committed AND owned."offset" <= cursor.handed
  )
  SELECT item.topic, CASE WHEN owned.ordinal IS NULL THEN 'fenced' WHEN owned."offset" > owned.handed THEN 'ahead'
              WHEN owned."offset" < owned.committed THEN 'behind' ELSE 'committed' END AS outcome,
         CASE WHEN owned."offset" > owned.handed THEN owned.committed ELSE GREATEST(owned."offset", owned.committed) END AS committed,
         owned."offset" > owned.committed AND owned."offset" <= owned.handed AS moved,
         ${IS_ALONE('owned', `(SELECT attempts FROM consumer_group WHERE name = $1)`)} AS alone,
         CASE WHEN owned."offset" > owned.handed THEN 0 ELSE GREATEST(0, COALESCE(owned."offset" - owned.committed, 0)) END AS messages
  FROM item LEFT JOIN owned ON owned.ordinal = item.ordinal ORDER BY item.ordinal`);

/** poll.expect — hands out again what the member says it never got: from its next offset on. Parameters as above. */
export const EXPECT_NEXT = prepared(`
  WITH ${ITEMS}
  UPDATE group_cursor AS cursor SET handed = GREATEST(cursor.committed, owned."offset" - 1)
  FROM owned WHERE ${SAME_CURSOR('cursor', 'owned')} AND owned."offset" <= cursor.handed`);

/**
 * poll.giveBack — batches whose response could not be written; unless something was handed out or committed since: the client may
 * have got the same offsets again by a later poll. $7 ends, $8 the poll that handed them out
 */
export const GIVE_BACK = `
  UPDATE group_cursor AS cursor SET handed = GREATEST(cursor.committed, given.first - 1)
  FROM unnest($3::text[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[]) AS given(topic, partition, fence, first, last)
  JOIN topic ON topic.name = given.topic AND topic.deleted_at IS NULL
  WHERE cursor.group_number = ${GROUP} AND cursor.owner = $2::uuid AND cursor.topic = topic.number
    AND cursor.partition = given.partition AND cursor.fence = given.fence AND cursor.handed = given.last
    AND cursor.handed_by = $8::uuid
  RETURNING cursor.group_number AS "group"`;

/**
 * poll.handOut — the next messages of the member's partitions, as JSON text, one row per partition. Offsets are dense, so
 * how many are available is known without reading them: the partitions share $4 evenly, and a partition that has less leaves
 * the rest to the others. `tiebreak` decides by chance who gets what cannot be divided. After a member died, what it had is
 * handed out with a higher attempt, and from the second death on one message at a time.
 *
 * Offsets that retention has removed are passed over: nobody can commit them, so the cursor moves by itself if nothing is in
 * flight. If the response that says so is lost, the member's next offset is still below them, and they are reported again.
 * $1 group, $2 member, $3 poll, $4 max messages, $5 max bytes (the first message may be larger), $6 topics, $7 partitions,
 * $8 fences, $9 next offsets
 */
export const HAND_OUT = prepared(`
  WITH consumers AS MATERIALIZED (SELECT number, max_in_flight, on_expired, attempts FROM consumer_group WHERE name = $1),
  mine AS MATERIALIZED (
    SELECT cursor.* FROM group_cursor AS cursor
    WHERE cursor.group_number = (SELECT number FROM consumers) AND cursor.owner = $2::uuid
      AND EXISTS (SELECT FROM group_member AS member
                  WHERE member.group_number = (SELECT number FROM consumers) AND member.id = $2::uuid AND member.poll = $3::uuid)
    ORDER BY cursor.topic, cursor.partition, cursor.start FOR NO KEY UPDATE OF cursor
  ),
  unread AS MATERIALIZED (
    SELECT mine.topic, mine.partition, mine.start, given.next
    FROM unnest($6::text[], $7::smallint[], $8::bigint[], $9::bigint[]) AS given(topic, partition, fence, next)
    JOIN topic ON topic.name = given.topic AND topic.deleted_at IS NULL
    JOIN mine ON mine.topic = topic.number AND mine.partition = given.partition AND mine.fence = given.fence
    JOIN topic_partition AS tail ON tail.topic = mine.topic AND tail.partition = mine.partition
    WHERE given.next <= mine.committed AND mine.committed < tail.earliest
  ),
  budget AS MATERIALIZED (
    SELECT LEAST($4::bigint, consumers.max_in_flight - (SELECT COALESCE(sum(handed - committed), 0) FROM mine)::bigint) AS messages FROM consumers
  ),
  open AS MATERIALIZED (
    SELECT mine.topic, mine.partition, mine.start, mine.fence, mine.handed, mine.deaths, mine.retry_to, random() AS tiebreak,
           GREATEST(mine.handed + 1, LEAST(tail.earliest, mine.bound + 1)) AS first,
           LEAST(mine.handed + 1, unread.next) AS expected,
           CASE WHEN ${IS_ALONE('mine', 'consumers.attempts')}
                THEN CASE WHEN mine.handed > mine.committed THEN 0 ELSE 1 END ELSE 1000000 END AS most,
           LEAST(tail.next - 1, mine.bound) AS last
    FROM consumers CROSS JOIN mine JOIN topic_partition AS tail ON tail.topic = mine.topic AND tail.partition = mine.partition
    LEFT JOIN unread ON unread.topic = mine.topic AND unread.partition = mine.partition AND unread.start = mine.start
    WHERE NOT mine.draining AND (tail.next > mine.handed + 1 OR unread.next IS NOT NULL)
      AND (consumers.on_expired = 'continue' OR tail.earliest <= mine.handed + 1)
  ),
  ranked AS MATERIALIZED (
    SELECT *, row_number() OVER upwards AS k, count(*) OVER () AS n,
           COALESCE(sum(available) OVER (ORDER BY available, tiebreak ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::bigint AS below
    FROM (SELECT open.*, LEAST(most, GREATEST(0, last - first + 1)) AS available FROM open) AS counted
    WINDOW upwards AS (ORDER BY available, tiebreak)
  ),
  level AS MATERIALIZED (
    SELECT k, (budget.messages - below) / (n - k + 1) AS each, mod(budget.messages - below, n - k + 1) AS odd
    FROM ranked CROSS JOIN budget WHERE budget.messages - below < available * (n - k + 1) ORDER BY k LIMIT 1
  ),
  shared AS MATERIALIZED (
    SELECT ranked.*, CASE WHEN level.k IS NULL OR ranked.k < level.k THEN available
                          ELSE GREATEST(0, LEAST(available, level.each + CASE WHEN ranked.k - level.k < level.odd THEN 1 ELSE 0 END)) END AS share
    FROM ranked LEFT JOIN level ON true
  ),
  taken AS MATERIALIZED (
    SELECT * FROM (
      SELECT picked.*, row_number() OVER round AS nth_of_all, sum(bytes) OVER (round ROWS UNBOUNDED PRECEDING) AS total
      FROM (
        SELECT shared.topic, shared.partition, shared.start, shared.tiebreak, entry."offset", entry."offset" - shared.first AS nth,
               entry.message, entry.bytes,
               CASE WHEN entry."offset" <= shared.retry_to THEN shared.deaths + 1 ELSE 1 END AS attempt
        FROM shared CROSS JOIN LATERAL (
          SELECT "offset", message, bytes FROM topic_entry
          WHERE topic_entry.topic = shared.topic AND topic_entry.partition = shared.partition
            AND topic_entry."offset" >= shared.first AND topic_entry."offset" < shared.first + shared.share
          ORDER BY topic_entry."offset"
        ) AS entry
      ) AS picked
      WINDOW round AS (ORDER BY picked.nth, picked.tiebreak)
    ) AS sized WHERE nth_of_all = 1 OR total <= $5::bigint
  ),
  batch AS MATERIALIZED (
    SELECT taken.topic, taken.partition, taken.start, max(taken."offset") AS last, count(*) AS count,
           string_agg(${entryJson('taken', 'inbox', `',"attempt":' || taken.attempt`)}, ',' ORDER BY taken."offset") AS messages
    FROM taken JOIN inbox ON inbox.position = taken.message
    GROUP BY taken.topic, taken.partition, taken.start
  ),
  handed AS MATERIALIZED (
    SELECT open.topic, open.partition, open.start, open.fence, open.first, open.expected, batch.count, batch.messages,
           open.first - open.handed - 1 AS skipped, COALESCE(batch.last, open.first - 1) AS last
    FROM open LEFT JOIN batch ON batch.topic = open.topic AND batch.partition = open.partition AND batch.start = open.start
    WHERE batch.topic IS NOT NULL OR open.first > open.expected
  ),
  moved AS (
    UPDATE group_cursor AS cursor SET handed = handed.last, handed_by = $3::uuid,
           committed = CASE WHEN cursor.committed = cursor.handed THEN GREATEST(cursor.committed, handed.first - 1) ELSE cursor.committed END
    FROM handed WHERE ${SAME_CURSOR('cursor', 'handed')}
  )
  SELECT topic.name AS topic, handed.partition, handed.fence, handed.first, handed.last, COALESCE(handed.count, 0)::int AS count,
         handed.expected, handed.skipped, handed.messages
  FROM handed JOIN topic ON topic.number = handed.topic ORDER BY topic.name, handed.partition, handed.start`);

const stateColumns = (cursors: string, contactMs: string) => `
  consumer_group.number, consumer_group.session_ms, consumer_group.max_in_flight, consumer_group.on_expired,
  member.poll, member.id IS NOT NULL AS known,
  consumer_group.generation <> consumer_group.balanced
    OR EXISTS (SELECT FROM group_member AS other WHERE other.group_number = consumer_group.number
               AND other.seen_at < clock_timestamp() - consumer_group.session_ms * interval '1 millisecond'
               AND consumer_group.session_ms < ${contactMs}::float8)
    OR EXISTS (SELECT FROM ${cursors} AS cursor WHERE cursor.group_number = consumer_group.number
               AND (cursor.owner IS NULL OR cursor.draining AND cursor.committed >= cursor.handed
                    OR cursor.committed >= cursor.bound)) AS unbalanced`;

/**
 * poll.state — the group, the member and its cursors, after the statements before it. No row: no such group. The cursors are
 * read once: while a snapshot is open elsewhere, each read passes all their old versions. $1 group, $2 member, $3 for how long (ms)
 * the database has been there for this replica
 */
export const STATE = prepared(`
  WITH cursors AS MATERIALIZED (SELECT * FROM group_cursor WHERE group_number = ${GROUP})
  SELECT ${stateColumns('cursors', '$3')},
    COALESCE((SELECT json_agg(json_build_object('topic', topic.name, 'number', cursor.topic, 'partition', cursor.partition,
                                                'fence', cursor.fence, 'committed', cursor.committed, 'handed', cursor.handed,
                                                'draining', cursor.draining, 'bound', cursor.bound,
                                                'alone', ${IS_ALONE('cursor', 'consumer_group.attempts')},
                                                'earliest', tail.earliest, 'next', tail.next)
                              ORDER BY topic.name, cursor.partition, cursor.start)
              FROM cursors AS cursor
              JOIN topic ON topic.number = cursor.topic
              JOIN topic_partition AS tail ON tail.topic = cursor.topic AND tail.partition = cursor.partition
              WHERE cursor.owner = $2::uuid), '[]') AS cursors
  FROM consumer_group LEFT JOIN group_member AS member ON member.group_number = consumer_group.number AND member.id = $2::uuid
  WHERE consumer_group.name = $1`);

/**
 * poll.changes — for polls that wait: partitions with more than was handed out, groups that have to be balanced, and members
 * that wait for a commit and have committed. The number of those is their place among the parameters.
 * $1 topics, $2 partitions, $3 their next offsets, $4 groups; $5 groups, $6 members, $7 the sum of what they have committed; $8 as $3 above
 */
export const CHANGES = `
  SELECT 'topic' AS kind, tail.topic AS number, tail.partition FROM unnest($1::integer[], $2::smallint[], $3::bigint[]) AS known(topic, partition, next)
  JOIN topic_partition AS tail ON tail.topic = known.topic AND tail.partition = known.partition WHERE tail.next > known.next
  UNION ALL
  SELECT 'group', number, 0 FROM (
    SELECT ${stateColumns('group_cursor', '$8')} FROM consumer_group LEFT JOIN group_member AS member ON false
    WHERE consumer_group.number = ANY ($4::integer[])
  ) AS groups WHERE unbalanced
  UNION ALL
  SELECT 'member', blocked.nth::integer - 1, 0
  FROM unnest($5::integer[], $6::uuid[], $7::bigint[]) WITH ORDINALITY AS blocked(group_number, member, committed, nth)
  WHERE blocked.committed IS DISTINCT FROM (
    SELECT sum(committed) FROM group_cursor WHERE group_number = blocked.group_number AND owner = blocked.member)`;
