/** replica.beat — a heartbeat; removes replicas that have been silent for an hour. $1 id, $2 process, $3 host, $4 roles, $5 version */
export const BEAT = `
  WITH gone AS (DELETE FROM replica WHERE seen_at < clock_timestamp() - interval '1 hour' AND id <> $1)
  INSERT INTO replica (id, process, host, roles, version) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp()`;

export const REMOVE_REPLICA = 'DELETE FROM replica WHERE id = $1';

/** A replica that was seen within this time is alive: it has missed fewer than four heartbeats. */
const ALIVE = `seen_at > clock_timestamp() - interval '20 seconds'`;

/** replica.list — with the number of lanes that each holds now. Lanes that are leased for ever belong to no replica. */
export const LIST_REPLICAS = `
  WITH held AS MATERIALIZED (
    SELECT replica AS process, queue, count(*)::int AS lanes FROM lane
    WHERE leased_until > clock_timestamp() AND leased_until < 'infinity' GROUP BY replica, queue
  )
  SELECT id, roles, version, host, started_at AS "startedAt", seen_at AS "seenAt", ${ALIVE} AS alive,
         json_build_object(
           'inbox', COALESCE((SELECT lanes FROM held WHERE held.process = replica.process AND queue = 'inbox'), 0),
           'outbox', COALESCE((SELECT lanes FROM held WHERE held.process = replica.process AND queue = 'outbox'), 0)) AS lanes
  FROM replica ORDER BY alive DESC, started_at, id LIMIT $1`;
