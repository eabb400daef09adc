const READY = 'queued.settled_at IS NULL AND queued.waits IS NULL';
const HELD = `queued.settled_at IS NULL AND queued.waits = 'held'`;

interface Stage {
  readonly table: 'inbox' | 'outbox';
  /** When a row began to wait; for a revived or replayed row, when it was requeued. */
  readonly since: string;
  /** Max rows counted per span. */
  readonly maxRows: string;
}

const INBOX: Stage = {
  table: 'inbox',
  since: 'COALESCE(queued.waits_since, GREATEST(queued.received_at, queued.due_at))',
  maxRows: '$1',
};
const OUTBOX: Stage = {
  table: 'outbox',
  since: 'COALESCE(queued.waits_since, queued.created_at)',
  maxRows: '(SELECT most_rows FROM share)',
};

/**
 * The oldest ready row in the lanes of `span`, found by reading the first row of each lane. Inconsistent: marked as
 * processing, in a lane without a lease.
 */
function oldestReady({ table, since }: Stage): string {
  const first = (from: string) => `
    SELECT queued.lane, ${since} AS since, queued.status FROM ${table} AS queued
    WHERE ${from} AND queued.lane <= span.last AND ${READY} ORDER BY queued.lane, queued.position LIMIT 1`;
  return `(
    WITH RECURSIVE head(lane, since, status) AS (
      (${first('queued.lane >= span.first')})
      UNION ALL
      SELECT next.* FROM head CROSS JOIN LATERAL (${first('queued.lane > head.lane')}) AS next
    )
    SELECT min(since) AS since, count(*) FILTER (WHERE status = 'processing' AND EXISTS (
      SELECT FROM lane WHERE lane.queue = '${table}' AND lane.lane = head.lane AND lane.leased_until = '-infinity')) AS inconsistent
    FROM head)`;
}

/**
 * The oldest held row, found by reading the first row of each key, for at most $2 keys. Keys are in no order of time, so
 * if there are more, the oldest of the keys read is close to the oldest of all. Inconsistent: held without a hold.
 */
function oldestHeld({ table, since }: Stage): string {
  const first = (from: string) => `
    SELECT queued.lane, queued.key, ${since} AS since FROM ${table} AS queued
    WHERE ${from} AND queued.lane <= span.last AND ${HELD} ORDER BY queued.lane, queued.key, queued.position LIMIT 1`;
  return `(
    WITH RECURSIVE head(lane, key, since, seen) AS (
      (SELECT first.*, 1 FROM (${first('queued.lane >= span.first')}) AS first)
      UNION ALL
      SELECT next.*, head.seen + 1 FROM head
      CROSS JOIN LATERAL (${first('(queued.lane, queued.key) > (head.lane, head.key)')}) AS next
      WHERE head.seen < (SELECT most_keys FROM share)
    )
    SELECT min(since) AS since, count(*) FILTER (WHERE NOT EXISTS (
      SELECT FROM hold WHERE hold.queue = '${table}' AND hold.lane = head.lane AND hold.key = head.key)) AS inconsistent
    FROM head)`;
}

function counted({ table, maxRows }: Stage, which: string): string {
  return `(
    SELECT count(*) FROM (
      SELECT FROM ${table} AS queued WHERE queued.lane >= span.first AND queued.lane <= span.last AND ${which} LIMIT ${maxRows}) AS one)`;
}

function waiting(stage: Stage, spans: string): string {
  return `
    SELECT '${stage.table}' AS stage, span.listener, span.gone, span.closed, span.limited,
           ${counted(stage, READY)} AS ready, ${counted(stage, HELD)} AS held,
           oldest_ready.since AS ready_since, oldest_held.since AS held_since,
           oldest_ready.inconsistent AS marked_inconsistent, oldest_held.inconsistent AS held_inconsistent
    FROM ${spans} AS span
    CROSS JOIN LATERAL ${oldestReady(stage)} AS oldest_ready
    CROSS JOIN LATERAL ${oldestHeld(stage)} AS oldest_held`;
}

/**
 * Closed: nothing is sent to the listener now, however much is ready, or only a probe if its circuit is due. Limited: its
 * rate limit is reached, and its next slot is in the future.
 */
const LISTENER_SPANS = `(
  SELECT listener.number * 256 AS first, listener.number * 256 + 255 AS last, listener.name AS listener,
         listener.deleted_at IS NOT NULL AS gone,
         listener.state <> 'active' OR COALESCE(gate.openings > 0 OR gate.closed_until > clock_timestamp(), false) AS closed,
         COALESCE(rate.next_at > clock_timestamp(), false) AS limited
  FROM listener LEFT JOIN gate ON gate.listener = listener.number LEFT JOIN rate ON rate.listener = listener.number)`;

/** Ready rows of a closed or rate-limited listener wait for that listener, not for a replica. */
const READY_STATUS = `CASE WHEN gone THEN 'deleted' WHEN closed THEN 'closed' WHEN limited THEN 'limited' ELSE 'ready' END`;

const AGE = (since: string) => `GREATEST(0, extract(epoch FROM clock_timestamp() - ${since}))`;

/**
 * observe — all metrics read from the database, in one statement, from the heads of partial indexes. Nothing is counted
 * beyond a limit, so a backlog of millions costs as much as one of thousands. Beyond the limit the inbox is estimated from
 * the last ANALYZE. $1 max rows counted of a kind, $2 max held keys scanned, $3 seconds within which an expiry is soon,
 * $4 seconds that a message may wait before it counts as expiring soon. counted_up_to is no metric, but the limit of one listener
 */
export const OBSERVE = `
  WITH share AS MATERIALIZED (
    SELECT GREATEST(100, $1::int / GREATEST(1, count(*))) AS most_rows, GREATEST(50, $2::int / GREATEST(1, count(*))) AS most_keys
    FROM listener
  ),
  waiting AS MATERIALIZED (
    ${waiting(INBOX, '(SELECT 0 AS first, 255 AS last, NULL::text AS listener, false AS gone, false AS closed, false AS limited)')}
    UNION ALL
    ${waiting(OUTBOX, LISTENER_SPANS)}
  ),
  scheduled AS MATERIALIZED (
    SELECT (SELECT count(*) FROM (
             SELECT FROM inbox WHERE settled_at IS NULL AND waits = 'due' LIMIT $1) AS one) AS count,
           (SELECT due_at FROM inbox WHERE settled_at IS NULL AND waits = 'due' ORDER BY due_at LIMIT 1) AS since
  ),
  shown AS (
    SELECT stage, listener, gone, closed, limited, held, held_since, CASE WHEN gone THEN ready + held ELSE ready END AS ready,
           CASE WHEN gone THEN LEAST(ready_since, held_since) ELSE ready_since END AS ready_since
    FROM waiting WHERE NOT gone OR ready + held > 0
  )

  SELECT 'backlog' AS name, stage, listener, ${READY_STATUS} AS kind,
         CASE WHEN stage = 'inbox' AND ready >= $1
              THEN GREATEST(ready, (SELECT reltuples FROM pg_class WHERE oid = to_regclass('inbox_ready'))) ELSE ready END AS value
  FROM shown
  UNION ALL
  SELECT 'backlog', stage, listener, 'held',
         CASE WHEN stage = 'inbox' AND held >= $1
              THEN GREATEST(held, (SELECT reltuples FROM pg_class WHERE oid = to_regclass('inbox_held'))) ELSE held END
  FROM shown WHERE NOT gone
  UNION ALL
  SELECT 'backlog', 'inbox', NULL, 'scheduled', count FROM scheduled
  UNION ALL
  SELECT 'backlog_oldest_age_seconds', stage, listener, ${READY_STATUS}, COALESCE(${AGE('ready_since')}, 0) FROM shown
  UNION ALL
  SELECT 'backlog_oldest_age_seconds', stage, listener, 'held', COALESCE(${AGE('held_since')}, 0) FROM shown WHERE NOT gone
  UNION ALL
  SELECT 'backlog_oldest_age_seconds', 'inbox', NULL, 'scheduled', COALESCE(${AGE('since')}, 0) FROM scheduled
  UNION ALL
  SELECT 'inconsistent_rows', stage, NULL, 'marked', sum(marked_inconsistent) FROM waiting GROUP BY stage
  UNION ALL
  SELECT 'inconsistent_rows', stage, NULL, 'held', sum(held_inconsistent) FROM waiting GROUP BY stage
  UNION ALL
  SELECT 'dead_letters', 'inbox', NULL, NULL, count(*) FROM (
    SELECT FROM inbox WHERE fingerprint IS NOT NULL LIMIT $1) AS one
  UNION ALL
  SELECT 'dead_letters', 'outbox', listener.name, NULL, dead.count FROM listener
  CROSS JOIN LATERAL (
    SELECT count(*) FROM (
      SELECT FROM outbox WHERE outbox.lane >= listener.number * 256 AND outbox.lane <= listener.number * 256 + 255
        AND outbox.fingerprint IS NOT NULL
      LIMIT (SELECT most_rows FROM share)) AS one) AS dead
  WHERE listener.deleted_at IS NULL OR dead.count > 0
  UNION ALL
  SELECT 'counted_up_to', NULL, NULL, NULL, most_rows FROM share
  UNION ALL
  SELECT 'holds', stage.queue, NULL, kind.reason, count(seen.reason)
  FROM (VALUES ('inbox'), ('outbox')) AS stage(queue)
  CROSS JOIN (VALUES ('retry'), ('deferred'), ('rate'), ('dead-letter'), ('operator'), ('leased')) AS kind(reason)
  LEFT JOIN (
    (SELECT queue, reason FROM hold WHERE queue = 'inbox' LIMIT $1)
    UNION ALL
    (SELECT queue, reason FROM hold WHERE queue = 'outbox' LIMIT $1)
  ) AS seen ON seen.queue = stage.queue AND seen.reason = kind.reason
  GROUP BY stage.queue, kind.reason
  UNION ALL
  SELECT 'messages_expiring_soon', NULL, NULL, NULL, count(*) FROM (
    SELECT FROM inbox WHERE settled_at IS NULL AND expires_at IS NOT NULL
      AND expires_at < statement_timestamp() + $3 * interval '1 second'
      AND GREATEST(received_at, due_at) < statement_timestamp() - $4 * interval '1 second' LIMIT $1) AS soon
  UNION ALL
  SELECT 'pull_in_flight', NULL, listener.name, NULL, (
    SELECT count(*) FROM pull_lease WHERE pull_lease.lane >= listener.number * 256 AND pull_lease.lane <= listener.number * 256 + 255)
  FROM listener WHERE listener.deleted_at IS NULL AND listener.definition ->> 'mode' = 'pull'
  UNION ALL
  SELECT 'circuit_open', NULL, listener.name, NULL, CASE WHEN gate.openings > 0 THEN 1 ELSE 0 END
  FROM listener LEFT JOIN gate ON gate.listener = listener.number WHERE listener.deleted_at IS NULL
  UNION ALL
  SELECT 'listener_paused', NULL, listener.name, listener.state,
         CASE WHEN listener.state = 'paused' OR gate.openings = 0 AND gate.closed_until > clock_timestamp() THEN 1 ELSE 0 END
  FROM listener LEFT JOIN gate ON gate.listener = listener.number WHERE listener.deleted_at IS NULL`;
