/** Dead letters read per stage, the newest ones: a million of one kind costs as much as a thousand. */
export const MAX_DEAD = 1_000;
const MAX_ROWS = 100;
/** A job without progress for this long is stalled. */
const STALLED = `interval '60 seconds'`;
/** Long enough to see whether a rollback is needed. */
const KEPT = `interval '1 hour'`;

/**
 * attention.dead — the newest dead letters of each stage, by similar errors. `capped`: there are more than were read.
 * The rejections of groups have no order of time, so some of each group are read.
 */
export const DEAD_LETTERS = `
  WITH dead AS MATERIALIZED (
    (SELECT 'inbox' AS stage, NULL::text AS listener, NULL::text AS "group", fingerprint, lapsed_at AS at
     FROM inbox WHERE fingerprint IS NOT NULL ORDER BY lapsed_at DESC, position DESC LIMIT ${MAX_DEAD})
    UNION ALL
    (SELECT 'outbox', listener.name, NULL, newest.fingerprint, newest.lapsed_at
     FROM (SELECT listener, fingerprint, lapsed_at FROM outbox WHERE fingerprint IS NOT NULL
           ORDER BY lapsed_at DESC, position DESC LIMIT ${MAX_DEAD}) AS newest
     JOIN listener ON listener.number = newest.listener)
    UNION ALL
    (SELECT 'group', NULL, consumer_group.name, rejected.fingerprint, rejected.rejected_at
     FROM consumer_group CROSS JOIN LATERAL (
       SELECT fingerprint, rejected_at FROM rejection
       WHERE rejection.group_number = consumer_group.number AND rejection.fingerprint IS NOT NULL
       LIMIT GREATEST(10, ${MAX_DEAD} / (SELECT GREATEST(1, count(*))::int FROM consumer_group))) AS rejected)
  )
  SELECT stage, listener, "group", fingerprint, count(*)::int AS count, min(at) AS since,
         sum(count(*)) OVER (PARTITION BY stage) >= ${MAX_DEAD} AS capped
  FROM dead GROUP BY stage, listener, "group", fingerprint ORDER BY count DESC, stage, listener, "group" LIMIT ${MAX_ROWS}`;

/** attention.listeners — those whose circuit is open, and those that were disabled. */
export const LISTENERS = `
  SELECT listener.name, listener.state, listener.state_reason AS "stateReason", listener.state_since AS "stateSince",
         gate.reason, gate.set_at AS "openSince", gate.closed_until AS "closedUntil"
  FROM listener LEFT JOIN gate ON gate.listener = listener.number AND gate.openings > 0
  WHERE listener.deleted_at IS NULL AND (listener.state = 'disabled' OR gate.listener IS NOT NULL)
  ORDER BY listener.name LIMIT ${MAX_ROWS}`;

/** attention.holds — indefinite holds of operators, the oldest first. */
export const INDEFINITE_HOLDS = `
  SELECT key, COALESCE(note, reason) AS reason, set_at AS since FROM hold
  WHERE reason = 'operator' AND until = 'infinity' ORDER BY set_at LIMIT ${MAX_ROWS}`;

/**
 * attention.jobs — revives, discards and replays that make no progress; rebuilds that have stopped at a message, and those
 * that keep the other schema, and finished messages for it.
 */
export const STALLED_JOBS = `
  (SELECT 'stalled-revive' AS kind, id, kind AS what, NULL::text AS listener, COALESCE(progressed_at, created_at) AS since
   FROM ruling WHERE done_at IS NULL AND COALESCE(progressed_at, created_at) < clock_timestamp() - ${STALLED}
   ORDER BY id LIMIT ${MAX_ROWS})
  UNION ALL
  (SELECT 'stalled-replay', replay.id, 'replay', listener.name, COALESCE(replay.progressed_at, replay.created_at)
   FROM replay JOIN listener ON listener.number = replay.listener
   WHERE (replay.done_at IS NULL OR replay.select_from IS NOT NULL)
     AND COALESCE(replay.progressed_at, replay.created_at) < clock_timestamp() - ${STALLED}
   ORDER BY replay.id LIMIT ${MAX_ROWS})
  UNION ALL
  (SELECT 'rebuild-stopped', id, model, NULL, created_at FROM rebuild WHERE ended_at IS NULL AND status = 'failed' LIMIT ${MAX_ROWS})
  UNION ALL
  (SELECT 'schema-kept', id, model, NULL, switched_at FROM rebuild
   WHERE ended_at IS NULL AND status IN ('switched', 'rolled-back') AND switched_at < clock_timestamp() - ${KEPT} LIMIT ${MAX_ROWS})`;

/** attention.sources — those that are not read, and those that keep refused messages. */
export const SOURCES = `
  SELECT name, error, since, refused.count,
         CASE WHEN leased_until < clock_timestamp() - interval '60 seconds' THEN 'unread' ELSE state END AS state
  FROM source CROSS JOIN LATERAL (
    SELECT count(*)::int AS count, min(at) AS first FROM source_refusal WHERE source_refusal.source = source.name
  ) AS refused
  WHERE state IN ('failing', 'full') OR refused.count > 0 OR leased_until < clock_timestamp() - interval '60 seconds'
  ORDER BY name LIMIT ${MAX_ROWS}`;

/** attention.roles — those that some replica runs. A replica is alive as in the list of replicas. */
export const LIVE_ROLES = `
  SELECT DISTINCT role FROM replica CROSS JOIN LATERAL unnest(roles) AS role
  WHERE seen_at > clock_timestamp() - interval '20 seconds'`;

/**
 * attention.gaps — producers whose numbers are missing for good, as it seems: the producer is silent, or far ahead of them.
 * Until then, they may be on their way on another connection.
 */
export const PRODUCER_GAPS = `
  SELECT source, id, seen_at AS since, lower(missing) AS first,
         (SELECT sum(upper(gap) - lower(gap))::float8 FROM unnest(missing) AS gap) AS count
  FROM producer WHERE missing <> '{}' AND (seen_at < clock_timestamp() - interval '10 seconds' OR last - lower(missing) > 1000)
  ORDER BY source, id LIMIT ${MAX_ROWS}`;

/** attention.history — work on history that fails. */
export const HISTORY_FAILURE = 'SELECT work, since, error FROM history_failure ORDER BY work';
