import { withinBytes } from '../../http/page-bytes.ts';

/**
 * replay.insert — nothing is selected yet; an infinite `done_at` keeps the previous version from taking it for selected.
 * $1 listener, $2 filter, $3 created by, $4 from this position, $5 before this position
 */
export const INSERT_REPLAY = `
  INSERT INTO replay (listener, filter, matched, created_by, select_from, select_to, done_at)
  VALUES ($1, $2, 0, $3, $4, $5, 'infinity') RETURNING id`;

/** replay.insertResend — of one delivery, which is selected already. $1 listener, $2 filter, $3 created by */
export const INSERT_RESEND = `
  INSERT INTO replay (listener, filter, matched, created_by) VALUES ($1, $2, 1, $3) RETURNING id`;

/** replay.addDelivery — $1 replay, $2 lane, $3 key, $4 position */
export const ADD_DELIVERY =
  'INSERT INTO replay_delivery (replay, lane, key, position) VALUES ($1, $2, $3, $4)';

const LAST_POSITION =
  'COALESCE((SELECT position FROM outbox WHERE listener = $1 ORDER BY listener, position DESC LIMIT 1), 0)';
const HAS_ARRIVALS = `EXISTS (SELECT FROM cell_marker WHERE outcome = 'arrived')`;

/**
 * Two adjacent positions among the deliveries of the listener, found by binary search: `low` was created before the time,
 * everything from `high` on was not. $1 listener
 */
const EDGE = (time: string) => `
  WITH RECURSIVE search(low, high) AS (
    SELECT 0::bigint, ${LAST_POSITION} + 1
    UNION ALL
    SELECT CASE WHEN probe.created_at < ${time} THEN probe.position ELSE search.low END,
           CASE WHEN probe.created_at < ${time} THEN search.high ELSE middle END
    FROM search CROSS JOIN LATERAL (SELECT (search.low + search.high) / 2) AS halved(middle)
    LEFT JOIN LATERAL (
      SELECT outbox.position, outbox.created_at FROM outbox
      WHERE outbox.listener = $1 AND outbox.position >= middle ORDER BY outbox.listener, outbox.position LIMIT 1
    ) AS probe ON true
    WHERE search.high - search.low > 1
  )`;

const LAST_STEP = 'FROM search ORDER BY high - low LIMIT 1';

/**
 * replay.span — the positions between which everything lies that was created in a time span: no index has the time, and a scan
 * of tens of millions of deliveries takes longer than a statement may. Positions grow with the time at which they are
 * assigned, which is some time after `created_at`, the start of their transaction: a delivery that was created longer before
 * a time than any transaction takes got its position before that time, and vice versa.
 * Where deliveries have come from another cell, with their positions, the times are not in order, and everything is scanned.
 * $1 listener, $2 since, $3 until, $4 max ms of a transaction
 */
export const FIND_SPAN = `
  SELECT CASE WHEN ${HAS_ARRIVALS} THEN 0
           ELSE (${EDGE(`$2::timestamptz - $4 * interval '1 millisecond'`)} SELECT low ${LAST_STEP}) END AS low,
         CASE WHEN ${HAS_ARRIVALS} THEN ${LAST_POSITION} + 1
           ELSE (${EDGE(`COALESCE($3::timestamptz, now()) + $4 * interval '1 millisecond'`)} SELECT high ${LAST_STEP}) END AS high`;

/**
 * replay.partEnd — the position that ends a part of $4 deliveries of the listener: counted, because most positions may belong to
 * other listeners; compared as rows, because an analysed table would otherwise be read by position alone.
 * $1 listener, $2 from this position, $3 before this position, $4 deliveries
 */
export const PART_END = `
  SELECT COALESCE((
    SELECT position FROM outbox
    WHERE (listener, position) >= ($1::integer, $2::bigint) AND (listener, position) < ($1, $3::bigint)
    ORDER BY listener, position OFFSET $4 LIMIT 1), $3) AS part_end`;

/** Deliveries created or settled after the replay was created are not included, however late their part is scanned. */
const CREATED_AT = '(SELECT replay.created_at FROM replay WHERE replay.id = $1)';

/**
 * replay.match — every settled delivery of the listener that matches the filter, in a part of the span; pending ones are sent
 * anyway, discarded ones are not wanted. $1 replay, $2 listener, $3 since, $4 until, $5 types as patterns of LIKE,
 * $6 keys, $7 only failed, $8 from this position, $9 before this position
 */
export const MATCH_DELIVERIES = `
  INSERT INTO replay_delivery (replay, lane, key, position)
  SELECT $1, outbox.lane, outbox.key, outbox.position
  FROM outbox
  WHERE (outbox.listener, outbox.position) >= ($2::integer, $8::bigint) AND (outbox.listener, outbox.position) < ($2, $9::bigint)
    AND outbox.settled_at <= ${CREATED_AT} AND outbox.status <> 'discarded'
    AND outbox.created_at >= $3 AND outbox.created_at < COALESCE($4::timestamptz, ${CREATED_AT})
    AND (NOT $7::boolean OR outbox.status = 'dead')
    AND ($5::text[] IS NULL AND $6::text[] IS NULL OR EXISTS (
      SELECT FROM inbox WHERE inbox.position = outbox.message
        AND ($5 IS NULL OR inbox.type LIKE ANY ($5)) AND ($6 IS NULL OR inbox.key = ANY ($6))))`;

/** replay.selected — one more part is selected. $1 replay, $2 matches in it, $3 start of the next part, null if there is none */
export const PART_SELECTED = `
  UPDATE replay SET matched = matched + $2, progressed_at = clock_timestamp(), select_from = $3::bigint,
         select_to = CASE WHEN $3 IS NOT NULL THEN select_to END, done_at = CASE WHEN $3 IS NOT NULL THEN done_at END
  WHERE id = $1 RETURNING matched`;

/**
 * replay.unfinished — of all listeners: one that is down must not block the replays of others. The replay of a listener that
 * is paused, disabled or deleted waits with it once it is selected.
 */
export const UNFINISHED = `
  SELECT replay.id FROM replay JOIN listener ON listener.number = replay.listener
  WHERE replay.select_from IS NOT NULL
     OR replay.done_at IS NULL AND listener.state = 'active' AND listener.deleted_at IS NULL
  ORDER BY replay.id`;

/** replay.take — locks it, unless another replica works on it. $1 replay */
export const TAKE_REPLAY = `
  SELECT id, listener, filter, select_from AS "selectFrom", select_to AS "selectTo" FROM replay
  WHERE id = $1 AND (done_at IS NULL OR select_from IS NOT NULL) FOR UPDATE SKIP LOCKED`;

/** replay.inFlight — reopened and not settled again, counted up to $2. $1 replay */
export const IN_FLIGHT = `
  SELECT count(*)::int AS waiting FROM (
    SELECT FROM outbox WHERE replay = $1 AND settled_at IS NULL LIMIT $2) AS on_its_way`;

/** replay.next — the first key with something to reopen, and its lane. $1 replay */
export const NEXT_KEY = `
  SELECT 'outbox' AS stage, lane, key FROM replay_delivery
  WHERE replay = $1 AND reopened_at IS NULL ORDER BY replay, lane, key, position LIMIT 1`;

/**
 * replay.reopen — makes the next deliveries of a lane pending again, key by key, each in order. Their earlier success is
 * recorded as an attempt. Returns the keys; the last one may be incomplete. $1 replay, $2 lane, $3 max deliveries
 */
export const REOPEN = `
  WITH item AS MATERIALIZED (
    SELECT next.place, next.key, next.position, earlier.status, earlier.attempt, earlier.answered, earlier.settled_at,
           earlier.duration_ms, earlier.excerpt
    FROM (SELECT ctid AS place, key, position FROM replay_delivery
          WHERE replay = $1 AND lane = $2 AND reopened_at IS NULL ORDER BY replay, lane, key, position LIMIT $3) AS next
    LEFT JOIN LATERAL (
      SELECT one.status, one.attempt, one.answered, one.settled_at, one.duration_ms, one.excerpt FROM outbox AS one
      WHERE one.position = next.position AND one.settled_at IS NOT NULL AND one.status <> 'discarded' LIMIT 1
    ) AS earlier ON true
  ),
  noted AS (UPDATE replay_delivery SET reopened_at = now() WHERE ctid = ANY (ARRAY(SELECT place FROM item))),
  recorded AS (
    INSERT INTO attempt (delivery, at, attempt, status, error, duration_ms, excerpt)
    SELECT position, settled_at, attempt, answered, 'delivered; sent again by replay ' || $1, duration_ms, excerpt
    FROM item WHERE status = 'finished'
  ),
  reopened AS (
    UPDATE outbox SET status = 'held', waits = 'held', settled_at = NULL, lapsed_at = NULL, attempt = 0,
           answered = NULL, duration_ms = NULL, excerpt = NULL, waits_since = clock_timestamp(), replay = $1
    WHERE position = ANY (ARRAY(SELECT position FROM item WHERE status IS NOT NULL))
      AND settled_at IS NOT NULL AND status <> 'discarded'
  )
  SELECT of_key.key, of_key.changed, EXISTS (
           SELECT FROM replay_delivery AS rest
           WHERE rest.replay = $1 AND rest.lane = $2 AND rest.key = of_key.key AND rest.position > of_key.last
             AND rest.reopened_at IS NULL) AS "partial"
  FROM (SELECT key, count(status)::int AS changed, max(position) AS last FROM item GROUP BY key) AS of_key`;

/** replay.progressed — $1 replay */
export const MARK_PROGRESS = 'UPDATE replay SET progressed_at = clock_timestamp() WHERE id = $1';

export const MARK_DONE = `
  UPDATE replay SET done_at = now() WHERE id = $1 AND done_at IS NULL
    AND NOT EXISTS (SELECT FROM replay_delivery WHERE replay = $1 AND reopened_at IS NULL)`;

const PROGRESS_OF = (which: string) => `
  SELECT replay.id, replay.matched, replay.created_at, replay.created_by, replay.done_at, replay.filter, replay.cancelled_at,
         replay.cancelled_by, listener.name AS listener, replay.select_from IS NOT NULL AS selecting,
         count(*) FILTER (WHERE item.position IS NOT NULL AND item.reopened_at IS NULL)::int AS closed,
         count(*) FILTER (WHERE item.reopened_at IS NOT NULL AND outbox.status IN ('pending', 'processing', 'held'))::int AS waiting,
         count(*) FILTER (WHERE item.reopened_at IS NOT NULL AND outbox.status = 'dead')::int AS dead
  FROM replay
  LEFT JOIN listener ON listener.number = replay.listener
  LEFT JOIN replay_delivery AS item ON item.replay = replay.id AND replay.select_from IS NULL
  LEFT JOIN outbox ON outbox.position = item.position
  WHERE ${which} GROUP BY replay.id, listener.name`;

/**
 * replay.progress — deliveries that retention removed meanwhile count as done. While it is being selected nothing is reopened,
 * and nothing has to be counted. $1 replay, $2 listener
 */
export const PROGRESS = PROGRESS_OF('replay.id = $1 AND replay.listener = $2');

/** replay.list — newest first. $1 max, $2 before this id or null, $3 listener or null */
export const LIST = `${withinBytes(
  PROGRESS_OF(`replay.id IN (
  SELECT id FROM replay WHERE ($2::bigint IS NULL OR id < $2) AND ($3::integer IS NULL OR listener = $3)
  ORDER BY id DESC LIMIT $1)`),
  'id DESC',
)} ORDER BY id DESC`;

/** replay.lockUnfinished — waits for the step in progress. $1 replay, $2 listener */
export const LOCK_UNFINISHED = `
  SELECT id FROM replay WHERE id = $1 AND listener = $2 AND (done_at IS NULL OR select_from IS NOT NULL) FOR UPDATE`;

/**
 * replay.dropRest — what was not begun. A key of which some deliveries were reopened is completed: live ones of the key wait
 * for that. $1 replay
 */
export const DROP_REST = `
  DELETE FROM replay_delivery AS item
  WHERE item.replay = $1 AND item.reopened_at IS NULL AND NOT EXISTS (
    SELECT FROM replay_delivery AS begun
    WHERE begun.replay = $1 AND begun.lane = item.lane AND begun.key = item.key AND begun.reopened_at IS NOT NULL)`;

/** replay.cancelled — nothing more is selected. $1 replay, $2 by, $3 deliveries that were dropped */
export const MARK_CANCELLED = `
  UPDATE replay SET cancelled_at = now(), cancelled_by = $2, matched = matched - $3, progressed_at = clock_timestamp(),
         select_from = NULL, select_to = NULL, done_at = NULL
  WHERE id = $1`;

/**
 * replay.count — how many deliveries a replay would match, counted up to a limit and among a limited number of deliveries.
 * $1 listener, $2 since, $3 until, $4 types as patterns of LIKE, $5 keys, $6 only failed, $7 from this position,
 * $8 before this position, $9 max
 */
export const COUNT_MATCHES = `
  SELECT count(*)::int AS matched FROM (
    SELECT FROM outbox
    WHERE (outbox.listener, outbox.position) >= ($1::integer, $7::bigint) AND (outbox.listener, outbox.position) < ($1, $8::bigint)
      AND outbox.settled_at IS NOT NULL AND outbox.status <> 'discarded'
      AND outbox.created_at >= $2 AND outbox.created_at < COALESCE($3::timestamptz, now())
      AND (NOT $6::boolean OR outbox.status = 'dead')
      AND ($4::text[] IS NULL AND $5::text[] IS NULL OR EXISTS (
        SELECT FROM inbox WHERE inbox.position = outbox.message
          AND ($4 IS NULL OR inbox.type LIKE ANY ($4)) AND ($5 IS NULL OR inbox.key = ANY ($5))))
    LIMIT $9) AS matching`;
