/** Ages are compared in milliseconds. */
const OLDER = (time: string, ms: string) => `${time} < now() - (${ms}) * interval '1 millisecond'`;

/** The first pattern that fits the type; else the time of all finished ones. */
const FINISHED_MS = (type: string) => `COALESCE((
  SELECT rule.ms FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY AS rule(pattern, ms, turn)
  WHERE ${type} LIKE rule.pattern ORDER BY rule.turn LIMIT 1), $5::bigint)`;

/** A dead letter that others wait behind is what they wait for: it stays until somebody rules on it. */
const WAITED_FOR = (stage: string) => `
  EXISTS (
    SELECT FROM hold
    WHERE hold.queue = '${stage}' AND hold.lane = stretch.lane AND hold.key = stretch.key
      AND hold.reason = 'dead-letter' AND hold.until > now())
  AND EXISTS (
    SELECT FROM ${stage} AS behind
    WHERE behind.lane = stretch.lane AND behind.key = stretch.key AND behind.settled_at IS NULL AND behind.waits = 'held')`;

/** Looked at once more when a row was waited for: whoever held it may have revived it. */
const STILL_OLD = OLDER('settled_at', '$8::bigint');

/**
 * `first_young` came, or ended soon after it came, too short a time ago for any retention: its time is not over, and will be
 * soon. `young`: all of the stretch came so.
 */
const ANSWER = (youngest: string) => `
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
 * retention.deliveries — settled ones whose time is over, in the next stretch of positions. Walks the primary key: a
 * stretch is looked at once per sweep, however little of it can go; a young one ends the sweep, all after it are younger.
 * $1 after position, $2 stretch, $3 patterns of types, $4 their times, $5 finished, $6 dead, $7 waiting, $8 the shortest
 * (ms), $9 listeners, $10 their times for the dead
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
        )} AND NOT (stretch.status = 'dead' AND ${WAITED_FOR('outbox')})
        ELSE ${OLDER('settled_at', FINISHED_MS('(SELECT inbox.type FROM inbox WHERE inbox.position = stretch.message)'))} END))
      AND ${STILL_OLD}
    RETURNING position, lane, key, status
  ),
  forgotten AS (DELETE FROM attempt WHERE delivery = ANY (ARRAY(SELECT position FROM removed)))
  ${ANSWER('$8::bigint')}`;

/**
 * retention.messages — the same for messages; one whose deliveries are still there stays with them. With a message goes
 * the memory of its id: deduplication lasts as long as the retention. $1 to $8 as above, $9 expired, $10 superseded
 */
export const REMOVE_MESSAGES = `
  WITH stretch AS MATERIALIZED (
    SELECT position, type, lane, key, status, settled_at, received_at AS came_at,
           COALESCE(waits_since, GREATEST(received_at, due_at)) AS waits_since
    FROM inbox WHERE position > $1 ORDER BY position LIMIT $2
  ),
  removed AS (
    DELETE FROM inbox
    WHERE position = ANY (ARRAY(
      SELECT stretch.position FROM stretch
      WHERE settled_at IS NOT NULL AND ${OLDER(
        'settled_at',
        `CASE WHEN stretch.status IN ('dead', 'discarded') THEN $6::bigint WHEN stretch.status = 'expired' THEN $9::bigint
              WHEN stretch.status = 'superseded' THEN $10::bigint ELSE ${FINISHED_MS('stretch.type')} END`,
      )}
        AND NOT (stretch.status = 'dead' AND ${WAITED_FOR('inbox')})
        AND NOT EXISTS (SELECT FROM outbox WHERE outbox.message = stretch.position)))
      AND ${STILL_OLD}
    RETURNING position, lane, key, status
  )
  ${ANSWER('$8::bigint')}`;

/** retention.giveUp — what nobody has in hand and was never handled. $1 positions, $2 how long it waited, for people */
export const GIVE_UP = {
  inbox: `
    UPDATE inbox SET status = 'expired', waits = NULL, settled_at = now(), lapsed_at = now(),
           error = 'it was not handled within ' || $2 || COALESCE('; last error: ' || error, '')
    WHERE position = ANY ($1::bigint[]) AND status IN ('pending', 'held')`,
  outbox: `
    UPDATE outbox SET status = 'dead', waits = NULL, settled_at = now(), lapsed_at = now(),
           error = 'it was not delivered within ' || $2 || COALESCE('; last error: ' || error, '')
    WHERE position = ANY ($1::bigint[]) AND status IN ('pending', 'held')`,
} as const;

/** retention.rulings — what was decided stays as long as what it was decided about. $1 ms, $2 most items */
export const REMOVE_RULING_ITEMS = `
  DELETE FROM ruling_item WHERE ctid = ANY (ARRAY(
    SELECT item.ctid FROM ruling JOIN ruling_item AS item ON item.ruling = ruling.id
    WHERE ${OLDER('ruling.done_at', '$1::bigint')} LIMIT $2))`;
export const REMOVE_RULINGS = `
  DELETE FROM ruling WHERE ${OLDER('done_at', '$1::bigint')} AND NOT EXISTS (SELECT FROM ruling_item AS item WHERE item.ruling = ruling.id)`;

/** Sent, all of it: what was reopened last may wait for its listener long after the replay is done. */
const REPLAY_OVER = `
  ${OLDER('replay.done_at', '$1::bigint')}
  AND NOT EXISTS (SELECT FROM outbox WHERE outbox.replay = replay.id AND outbox.settled_at IS NULL)`;

/** retention.replays — $1 ms, $2 most deliveries */
export const REMOVE_REPLAY_DELIVERIES = `
  DELETE FROM replay_delivery WHERE ctid = ANY (ARRAY(
    SELECT item.ctid FROM replay JOIN replay_delivery AS item ON item.replay = replay.id
    WHERE ${REPLAY_OVER} LIMIT $2))`;
export const REMOVE_REPLAYS = `
  DELETE FROM replay WHERE ${REPLAY_OVER} AND NOT EXISTS (SELECT FROM replay_delivery AS item WHERE item.replay = replay.id)`;

/**
 * retention.producers — those that sent nothing for so long, in the next stretch of names. There is no index by `seen_at` on
 * purpose: each post of a producer would have to write it. One that posts right now is stepped over: to wait for it in another
 * order than the ingest locks them in would be a deadlock. $1, $2 after source and id, $3 stretch, $4 ms
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

/** retention.one — one sweeper at a time over all replicas. */
export const TRY_RETENTION_LOCK = `SELECT pg_try_advisory_xact_lock(hashtext('sluice'), hashtext('retention')) AS mine`;
