/** Ages are compared in milliseconds. */
const OLDER = (time: string, ms: string) => `${time} < now() - (${ms}) * interval '1 millisecond'`;

/** The retention of the first pattern that matches the type, else RETENTION_FINISHED. */
const FINISHED_MS = (type: string) => `COALESCE((
  SELECT rule.ms FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY AS rule(pattern, ms, turn)
  WHERE ${type} LIKE rule.pattern ORDER BY rule.turn LIMIT 1), $5::bigint)`;

/** A dead letter that other rows wait behind is kept until an operator revives or discards it. */
const BLOCKS_OTHERS = (stage: string) => `
  EXISTS (
    SELECT FROM hold
    WHERE hold.queue = '${stage}' AND hold.lane = stretch.lane AND hold.key = stretch.key
      AND hold.reason = 'dead-letter' AND hold.until > now())
  AND EXISTS (
    SELECT FROM ${stage} AS behind
    WHERE behind.lane = stretch.lane AND behind.key = stretch.key AND behind.settled_at IS NULL AND behind.waits = 'held')`;

/** PostgreSQL checks this again after it waited for a locked row: the other transaction may have revived it. */
const STILL_OLD = OLDER('settled_at', '$8::bigint');

/**
 * `first_young` is the first row that arrived, or settled soon after it arrived, too recently for any retention: it cannot
 * be removed yet, but soon. `young`: all rows of the stretch arrived too recently.
 */
const RESULT = (youngest: string) => `
  SELECT (SELECT count(*)::int FROM removed) AS removed, (SELECT count(*)::int FROM stretch) AS seen,
         (SELECT max(position) FROM stretch) AS last,
         COALESCE((SELECT json_agg(json_build_array(lane, key)) FROM removed WHERE status = 'dead'), '[]') AS dead,
         COALESCE((SELECT json_agg(json_build_array(lane, position)) FROM stretch
                   WHERE settled_at IS NULL AND status IN ('pending', 'held') AND ${OLDER('waits_since', '$7::bigint')}), '[]') AS given_up,
         (SELECT min(position) FROM stretch
          WHERE NOT (${OLDER('came_at', youngest)})
             OR NOT (${OLDER('settled_at', youngest)}) AND NOT (${OLDER('came_at', `2 * ${youngest}`)})) AS first_young,
         (SELECT min(came_at) FROM stretch) > now() - ${youngest} * interval '1 millisecond' AS young`;

/**
 * retention.deliveries — removes settled deliveries past their retention, in the next stretch of positions. It scans the
 * primary key: each stretch is read once per sweep, however few of its rows can be removed. A young stretch ends the sweep,
 * because all rows after it are younger. $1 after position, $2 rows per stretch, $3 type patterns, $4 their retentions,
 * $5 finished, $6 dead, $7 waiting, $8 the shortest (ms), $9 listeners, $10 their retentions of dead letters
 */
export const REMOVE_DELIVERIES = `
  WITH stretch AS MATERIALIZED (
    SELECT outbox.position, outbox.message, outbox.listener, outbox.lane, outbox.key, outbox.status, outbox.settled_at,
           outbox.created_at AS came_at, COALESCE(outbox.waits_since, outbox.created_at) AS waits_since
    FROM outbox WHERE outbox.position > $1 ORDER BY outbox.position LIMIT $2
  ),
  removed AS (
    DELETE FROM outbox
    WHERE position = ANY (ARRAY(
      SELECT stretch.position FROM stretch
      WHERE settled_at IS NOT NULL AND CASE
        WHEN stretch.status IN ('dead', 'discarded') THEN ${OLDER(
          'settled_at',
          `COALESCE((SELECT rule.ms FROM unnest($9::text[], $10::bigint[]) AS rule(name, ms)
                     JOIN listener ON listener.name = rule.name WHERE listener.number = stretch.listener), $6::bigint)`,
        )} AND NOT (stretch.status = 'dead' AND ${BLOCKS_OTHERS('outbox')})
        ELSE ${OLDER('settled_at', FINISHED_MS('(SELECT inbox.type FROM inbox WHERE inbox.position = stretch.message)'))} END))
      AND ${STILL_OLD}
    RETURNING position, lane, key, status
  ),
  forgotten AS (DELETE FROM attempt WHERE delivery = ANY (ARRAY(SELECT position FROM removed)))
  ${RESULT('$8::bigint')}`;

/**
 * retention.messages — the same for messages. A message is kept as long as any of its deliveries, as long as an entry of a
 * topic points to it, and as long as a rebuild of a read model has not applied it. A finished message whose type is kept in
 * history is not removed, but returned with the size of its payload. Of finished messages that are removed, the latest time
 * per type is noted: history has a gap up to there. $1 to $8 as above, $9 expired, $10 superseded, $11 type patterns of history
 */
export const REMOVE_MESSAGES = `
  WITH stretch AS MATERIALIZED (
    SELECT position, type, lane, key, status, settled_at, COALESCE(applied, 0) AS applied, received_at AS came_at,
           COALESCE(waits_since, GREATEST(received_at, due_at)) AS waits_since
    FROM inbox WHERE position > $1 ORDER BY position LIMIT $2
  ),
  old AS MATERIALIZED (
    SELECT stretch.position, stretch.status = 'finished' AND stretch.type LIKE ANY ($11::text[]) AS archivable FROM stretch
    WHERE settled_at IS NOT NULL AND ${OLDER(
      'settled_at',
      `CASE WHEN stretch.status IN ('dead', 'discarded') THEN $6::bigint WHEN stretch.status = 'expired' THEN $9::bigint
            WHEN stretch.status = 'superseded' THEN $10::bigint ELSE ${FINISHED_MS('stretch.type')} END`,
    )}
      AND NOT (stretch.status = 'dead' AND ${BLOCKS_OTHERS('inbox')})
      AND NOT EXISTS (SELECT FROM outbox WHERE outbox.message = stretch.position)
      AND NOT EXISTS (SELECT FROM topic_entry WHERE topic_entry.message = stretch.position)
      AND NOT (stretch.status = 'finished' AND EXISTS (
        SELECT FROM rebuild_lane AS needed WHERE needed.lane = stretch.lane
          AND (stretch.applied, stretch.position) > (needed.applied, needed.position)))
  ),
  removed AS (
    DELETE FROM inbox
    WHERE position = ANY (ARRAY(SELECT position FROM old WHERE NOT archivable)) AND ${STILL_OLD}
    RETURNING position, lane, key, status, type, received_at
  ),
  gap AS (
    INSERT INTO history_gap (type, "to")
    SELECT type, max(received_at) FROM removed WHERE status = 'finished' GROUP BY type
    ON CONFLICT (type) DO UPDATE SET "to" = GREATEST(history_gap."to", EXCLUDED."to")
  ),
  archivable AS (
    SELECT inbox.position, octet_length(inbox.payload::text) AS bytes
    FROM inbox WHERE position = ANY (ARRAY(SELECT position FROM old WHERE archivable))
  )
  ${RESULT('$8::bigint')},
         COALESCE((SELECT json_agg(json_build_array(position, bytes) ORDER BY position) FROM archivable), '[]') AS archivable`;

/** retention.giveUp — ends rows that no replica has claimed, no consumer has, and that were never handled. $1 positions, $2 the limit, as text */
export const GIVE_UP = {
  inbox: `
    UPDATE inbox SET status = 'expired', waits = NULL, settled_at = now(), lapsed_at = now(),
           error = 'it was not handled within ' || $2 || COALESCE('; last error: ' || error, '')
    WHERE position = ANY ($1::bigint[]) AND status IN ('pending', 'held')`,
  outbox: `
    UPDATE outbox SET status = 'dead', waits = NULL, settled_at = now(), lapsed_at = now(),
           error = 'it was not delivered within ' || $2 || COALESCE('; last error: ' || error, '')
    WHERE position = ANY ($1::bigint[]) AND status IN ('pending', 'held') AND NOT EXISTS (
      SELECT FROM pull_lease WHERE pull_lease.lane = outbox.lane AND pull_lease.position = outbox.position)`,
} as const;

/** retention.actions — revives and discards (table `ruling`) are kept as long as their dead letters. $1 ms, $2 max items */
export const REMOVE_ACTION_ITEMS = `
  DELETE FROM ruling_item WHERE ctid = ANY (ARRAY(
    SELECT item.ctid FROM ruling JOIN ruling_item AS item ON item.ruling = ruling.id
    WHERE ${OLDER('ruling.done_at', '$1::bigint')} LIMIT $2))`;
export const REMOVE_ACTIONS = `
  DELETE FROM ruling WHERE ${OLDER('done_at', '$1::bigint')} AND NOT EXISTS (SELECT FROM ruling_item AS item WHERE item.ruling = ruling.id)`;

/** All deliveries are settled: the last ones may wait for their listener long after the replay itself is done. */
const REPLAY_OVER = `
  ${OLDER('replay.done_at', '$1::bigint')}
  AND NOT EXISTS (SELECT FROM outbox WHERE outbox.replay = replay.id AND outbox.settled_at IS NULL)`;

/** retention.replays — $1 ms, $2 max deliveries */
export const REMOVE_REPLAY_DELIVERIES = `
  DELETE FROM replay_delivery WHERE ctid = ANY (ARRAY(
    SELECT item.ctid FROM replay JOIN replay_delivery AS item ON item.replay = replay.id
    WHERE ${REPLAY_OVER} LIMIT $2))`;
export const REMOVE_REPLAYS = `
  DELETE FROM replay WHERE ${REPLAY_OVER} AND NOT EXISTS (SELECT FROM replay_delivery AS item WHERE item.replay = replay.id)`;

/**
 * retention.producers — removes producers that sent nothing within the retention, in the next stretch of names. There is no
 * index on `seen_at` on purpose: every post of a producer would have to update it. A producer that is posting right now is
 * skipped: waiting for it in another order than the ingest locks producers could deadlock. $1, $2 after source and id,
 * $3 rows per stretch, $4 ms
 */
export const REMOVE_PRODUCERS = `
  WITH stretch AS MATERIALIZED (
    SELECT source, id, seen_at FROM producer WHERE (source, id) > ($1, $2) ORDER BY source, id LIMIT $3
  ),
  idle AS MATERIALIZED (
    SELECT producer.source, producer.id
    FROM stretch JOIN producer ON producer.source = stretch.source AND producer.id = stretch.id
    WHERE ${OLDER('stretch.seen_at', '$4::bigint')} AND ${OLDER('producer.seen_at', '$4::bigint')}
    FOR UPDATE OF producer SKIP LOCKED
  ),
  removed AS (
    DELETE FROM producer USING idle WHERE producer.source = idle.source AND producer.id = idle.id RETURNING 1
  )
  SELECT (SELECT count(*)::int FROM removed) AS removed, last.source, last.id
  FROM (SELECT source, id FROM stretch ORDER BY source DESC, id DESC LIMIT 1) AS last`;
