/**
 * groups.keepPayloads — before a message that is already settled gets another entry: without it, retention could remove the
 * message in between. Retention takes the same lock exclusively for each of its steps.
 */
export const BLOCK_RETENTION = `SELECT pg_advisory_xact_lock_shared(hashtext('sluice'), hashtext('retention'))`;

/** groups.lockDead — $1 topic */
export const LOCK_DEAD = 'SELECT FROM topic_partition WHERE topic = $1 AND partition = 0 FOR NO KEY UPDATE';

/** Appends the rows of `from(message, bytes, nth)` to a topic of one partition; they have the offsets from `moved.first` on. */
const appended = (from: string, topic: string) => `
  total AS (SELECT count(*) AS count FROM ${from}),
  moved AS (
    UPDATE topic_partition SET next = next + total.count FROM total WHERE topic = ${topic} AND partition = 0
    RETURNING next - total.count AS first
  ),
  appended AS (
    INSERT INTO topic_entry (topic, partition, "offset", message, bytes)
    SELECT ${topic}, 0, moved.first + ${from}.nth - 1, ${from}.message, ${from}.bytes FROM ${from} CROSS JOIN moved
  )`;

/**
 * groups.reject — each rejected message once, with an entry in the topic of the group's dead letters, in the order in which
 * the messages were accepted. What is still a dead letter, or was rejected under the same fence (the retry of a commit), is
 * known: its lock waits for an operator who decides about it, and the fence is kept for the retries that follow. Returns how
 * many were recorded, and how many could not be because retention has removed them.
 * $1 group, $2 dead topic, $3 topics, $4 partitions, $5 offsets, $6 fences, $7 reasons
 */
export const REJECT = `
  WITH named AS MATERIALIZED (
    SELECT DISTINCT ON (given.topic, given.partition, given."offset") given.*
    FROM unnest($3::integer[], $4::smallint[], $5::bigint[], $6::bigint[], $7::text[])
           AS given(topic, partition, "offset", fence, reason)
  ),
  known AS MATERIALIZED (
    SELECT rejection.position, named.topic, named.partition, named."offset", named.fence
    FROM named JOIN rejection ON rejection.group_number = $1 AND rejection.topic = named.topic
     AND rejection.partition = named.partition AND rejection."offset" = named."offset"
    WHERE rejection.status = 'dead' OR rejection.fence = named.fence ORDER BY rejection.position FOR UPDATE OF rejection
  ),
  kept AS (
    UPDATE rejection SET fence = known.fence FROM known
    WHERE rejection.position = known.position AND rejection.fence <> known.fence
  ),
  given AS MATERIALIZED (
    SELECT named.* FROM named WHERE NOT EXISTS (
      SELECT FROM known WHERE known.topic = named.topic AND known.partition = named.partition AND known."offset" = named."offset")
  ),
  fresh AS MATERIALIZED (
    SELECT given.*, entry.message, entry.bytes, row_number() OVER (ORDER BY entry.message) AS nth,
           COALESCE((SELECT max(CASE WHEN given."offset" <= cursor.retry_to THEN cursor.deaths + 1 ELSE 1 END) FROM group_cursor AS cursor
                     WHERE cursor.group_number = $1 AND cursor.topic = given.topic AND cursor.partition = given.partition), 1) AS attempts
    FROM given
    JOIN topic_entry AS entry ON entry.topic = given.topic AND entry.partition = given.partition AND entry."offset" = given."offset"
  ),
  ${appended('fresh', '$2')},
  recorded AS (
    INSERT INTO rejection (group_number, topic, partition, "offset", fence, dead_topic, dead_offset, reason, attempts)
    SELECT $1, fresh.topic, fresh.partition, fresh."offset", fresh.fence, $2, moved.first + fresh.nth - 1, fresh.reason, fresh.attempts
    FROM fresh CROSS JOIN moved ORDER BY fresh.nth
  )
  SELECT count::int AS recorded, ((SELECT count(*) FROM given) - count)::int AS expired FROM total`;

/** groups.lockRejections — those of a group that are still dead letters: others decide about them one after the other. $1 group, $2 positions */
export const LOCK_REJECTIONS = `
  SELECT position FROM rejection WHERE group_number = $1 AND position = ANY ($2::bigint[]) AND status = 'dead'
  ORDER BY position FOR UPDATE`;

/**
 * groups.revive — appends rejected messages to the topic that only their group reads, in the given order. Returns those it
 * has revived: none if the topic is gone with its group. $1 topic, $2 positions of rejections, $3 by
 */
export const REVIVE = `
  WITH dead AS MATERIALIZED (
    SELECT rejection.position, entry.message, entry.bytes, row_number() OVER (ORDER BY given.ordinal) AS nth
    FROM unnest($2::bigint[]) WITH ORDINALITY AS given(position, ordinal)
    JOIN rejection ON rejection.position = given.position
    JOIN topic_entry AS entry
      ON entry.topic = rejection.dead_topic AND entry.partition = 0 AND entry."offset" = rejection.dead_offset
  ),
  ${appended('dead', '$1')}
  UPDATE rejection SET status = 'revived', ruled_at = now(), ruled_by = $3, revived_topic = $1,
         revived_offset = moved.first + dead.nth - 1
  FROM dead CROSS JOIN moved WHERE rejection.position = dead.position
  RETURNING rejection.position`;

/** groups.discard — $1 positions, $2 by */
export const DISCARD = `
  UPDATE rejection SET status = 'discarded', ruled_at = now(), ruled_by = $2 WHERE position = ANY ($1::bigint[])
  RETURNING position`;
