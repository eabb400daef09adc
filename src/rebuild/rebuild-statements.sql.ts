import { EXCLUSIVE_WORK } from './work-lock.ts';

const FIELDS = `id, model, target, status, direction, paused, options, migrations, version, diff IS NOT NULL AS compared`;

/** Those that a replica can work on. */
export const AT_WORK = `
  SELECT ${FIELDS} FROM rebuild
  WHERE ended_at IS NULL AND NOT paused AND status IN ('building', 'replaying', 'comparing', 'ready', 'switching') ORDER BY id`;

/** The open one of a model, locked. $1 model */
export const LOCK_OPEN = `
  SELECT ${FIELDS} FROM ${EXCLUSIVE_WORK('$1')}, rebuild WHERE model = $1 AND ended_at IS NULL FOR UPDATE OF rebuild`;

/**
 * Retention, what rewrites blocks, and imports: a transaction of theirs that began before may not see the rebuild, and would
 * remove or add messages behind its back.
 */
export const LOCK_HISTORY_CHANGES = `
  SELECT pg_advisory_xact_lock(hashtext('sluice'), hashtext('retention.turn')),
         pg_advisory_xact_lock(hashtext('sluice'), hashtext('history.rewrite')),
         pg_advisory_xact_lock(hashtext('sluice'), hashtext('history.import'))`;

/** $1 model, $2 target, $3 options, $4 migrations, $5 by, $6 version */
export const CREATE = (living: string) => `
  INSERT INTO rebuild (model, target, options, migrations, created_by, version, known_migrations)
  VALUES ($1, $2, $3, $4, $5, $6, ARRAY(SELECT name FROM ${living}.migration))
  ON CONFLICT DO NOTHING RETURNING id`;

/** All lanes and all history from the beginning; from now on retention keeps what they still need. $1 rebuild */
export const CREATE_LANES = `
  WITH history AS (
    INSERT INTO rebuild_history (rebuild, lane_group) SELECT $1, lane_group FROM generate_series(0, 15) AS series(lane_group)
    WHERE EXISTS (SELECT FROM archive_block AS block WHERE block.lane_group = series.lane_group)
  )
  INSERT INTO rebuild_lane (rebuild, lane) SELECT $1, lane FROM lane WHERE queue = 'inbox' ON CONFLICT DO NOTHING`;
/** $1 rebuild */
export const REMOVE_LANES = `
  WITH history AS (DELETE FROM rebuild_history WHERE rebuild = $1) DELETE FROM rebuild_lane WHERE rebuild = $1`;

/** Unless somebody else did, or stopped it. $1 rebuild, $2 from, $3 to */
export const MOVE_ON = 'UPDATE rebuild SET status = $3 WHERE id = $1 AND status = $2 AND NOT paused';
/** $1 rebuild, $2 diff, $3 status */
export const COMPARED = `UPDATE rebuild SET diff = $2, status = $3 WHERE id = $1 AND status = 'comparing'`;
/** $1 rebuild, $2 reason */
export const WAITS = 'UPDATE rebuild SET waits_for = $2 WHERE id = $1 AND ended_at IS NULL';
/** Unless there is another reason meanwhile. $1 rebuild, $2 reason */
export const WAITS_NO_LONGER = 'UPDATE rebuild SET waits_for = NULL WHERE id = $1 AND waits_for = $2';
/** Live messages that wait to be applied; counted up to the max. $1 max */
export const WAITING = `
  SELECT count(*) AS waiting FROM (SELECT FROM inbox WHERE settled_at IS NULL AND waits IS NULL LIMIT $1) AS ready`;

/** Messages that a rebuild has read, of history and inbox. `id`: of the rebuild. */
const DONE = (id: string) => `(
    (SELECT COALESCE(sum(done), 0) FROM rebuild_lane WHERE rebuild_lane.rebuild = ${id})::bigint
    + (SELECT COALESCE(sum(passed), 0) FROM rebuild_history WHERE rebuild_history.rebuild = ${id})::bigint)`;

/** Of each rebuild at work, unless another replica has done so; what is too old for a rate is removed. */
export const SAMPLE = `
  WITH old AS (DELETE FROM rebuild_progress WHERE at < clock_timestamp() - interval '2 minutes')
  INSERT INTO rebuild_progress (rebuild, done)
  SELECT id, ${DONE('id')} FROM rebuild
  WHERE ended_at IS NULL AND NOT paused AND status = 'replaying' AND NOT EXISTS (
    SELECT FROM rebuild_progress WHERE rebuild = rebuild.id AND at > clock_timestamp() - interval '4 seconds')`;

/** A rate begins again, after a pause. $1 rebuild */
export const FORGET_RATE = `
  WITH forgotten AS (DELETE FROM rebuild_progress WHERE rebuild = $1)
  INSERT INTO rebuild_progress (rebuild, done) SELECT id, ${DONE('id')} FROM rebuild WHERE id = $1`;

/** The time and the number that a rate begins with: of the last minute. */
const RATE_SINCE = `
  SELECT at, done FROM (
    SELECT at, done, 1 AS preference FROM rebuild_progress
    WHERE rebuild_progress.rebuild = rebuild.id AND at > clock_timestamp() - interval '60 seconds'
    UNION ALL SELECT replay_from, 0, 2 WHERE replay_from > clock_timestamp() - interval '60 seconds'
  ) AS samples ORDER BY preference, at LIMIT 1`;

/** Replicas that can work on it, as of a moment ago: they say so every few seconds. */
const REPLICAS = `
  SELECT FROM read_model_version AS runs
  WHERE runs.model = rebuild.model AND runs.migrations = rebuild.migrations AND seen_at > clock_timestamp() - interval '20 seconds'`;

/** What an operator sees. $1 model, null: all */
export const VIEW = `
  SELECT rebuild.*, diff IS NOT NULL AS compared, progress.done, (SELECT count(*)::int FROM rebuild_failure WHERE rebuild_failure.rebuild = rebuild.id) AS left_out,
         progress.done - since.done AS recent_done, extract(epoch FROM clock_timestamp() - since.at) AS recent_seconds,
         ARRAY(SELECT jsonb_build_object('id', id, 'source', source, 'error', error, 'reason', reason, 'by', skipped_by, 'at', at)
               FROM rebuild_failure WHERE rebuild_failure.rebuild = rebuild.id ORDER BY position LIMIT 100) AS left_out_messages,
         EXISTS (${REPLICAS}) AS has_migrations,
         EXISTS (${REPLICAS} AND runs.version = COALESCE(rebuild.version, runs.version)) AS has_version
  FROM rebuild CROSS JOIN LATERAL (SELECT ${DONE('rebuild.id')} AS done) AS progress
  LEFT JOIN LATERAL (${RATE_SINCE}) AS since ON true
  WHERE ($1::text IS NULL OR model = $1)
    AND rebuild.id = (SELECT max(latest.id) FROM rebuild AS latest WHERE latest.model = rebuild.model)`;

/** $1 rebuild */
export const FAILURE_OF = 'SELECT failure FROM rebuild WHERE id = $1';
/** $1 rebuild, $2 whether */
export const SET_PAUSED = 'UPDATE rebuild SET paused = $2 WHERE id = $1';
/** Messages that failed have all their attempts again. $1 rebuild */
export const RETRY_LANES =
  'UPDATE rebuild_lane SET attempts = 0, retry_at = NULL WHERE rebuild = $1 AND attempts > 0';
/** One that could not be built is built again. $1 rebuild */
export const TRY_AGAIN = `
  UPDATE rebuild SET status = CASE WHEN replay_from IS NULL THEN 'building' ELSE 'replaying' END, paused = false, failure = NULL WHERE id = $1`;
/**
 * An operator who asks for the switch accepts what was left out. A schema that was the living one was changed by whatever code
 * ran then: the code that runs now goes on with it. $1 rebuild, $2 direction, $3 version
 */
export const FOLLOW = `
  UPDATE rebuild SET status = 'replaying', direction = $2, failure = NULL, waits_for = NULL,
         version = CASE WHEN status = 'ready' THEN version ELSE $3 END,
         options = options || CASE WHEN $2 = 'forward' THEN '{"acceptFailures": true}' ELSE '{}' END::jsonb
  WHERE id = $1`;

/** Up to when messages of these types may be missing. Null: none is missing. $1 types */
export const GAP = `SELECT max("to") AS "to" FROM history_gap WHERE type = '*' OR type = ANY ($1::text[])`;

/** $1 rebuild */
export const STAY_ON_SWITCHED = `
  UPDATE rebuild SET status = 'switched', direction = 'forward', paused = false, failure = NULL, waits_for = NULL WHERE id = $1`;
/** $1 rebuild, $2 status */
export const END =
  'UPDATE rebuild SET status = $2, paused = false, ended_at = clock_timestamp() WHERE id = $1';

/** $1 rebuild, $2 position, $3 source, $4 id, $5 error, $6 by, $7 reason */
export const SKIP = `
  WITH skipped AS (
    INSERT INTO rebuild_failure (rebuild, position, source, id, error, skipped_by, reason) VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT DO NOTHING
  )
  UPDATE rebuild SET status = 'replaying', failure = NULL WHERE id = $1`;
