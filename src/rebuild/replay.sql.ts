import { SHARED_WORK } from './work-lock.ts';

/**
 * First statement of a batch: as long as it runs, nobody changes the rebuild; a cancel or a switch waits for it.
 * $1 rebuild, $2 target, $3 model
 */
export const SHARE_REBUILD = `
  SELECT id FROM ${SHARED_WORK('$3')}, rebuild
  WHERE id = $1 AND target = $2 AND NOT paused AND status IN ('replaying', 'comparing', 'ready', 'switching') FOR SHARE OF rebuild`;

/** $1 rebuild, $2 lanes, $3 applied, $4 positions, $5 numbers of messages */
export const ADVANCE = `
  UPDATE public.rebuild_lane AS progress SET applied = next.applied, position = next.position, done = done + next.count, attempts = 0, retry_at = NULL
  FROM unnest($2::int[], $3::bigint[], $4::bigint[], $5::bigint[]) AS next(lane, applied, position, count)
  WHERE progress.rebuild = $1 AND progress.lane = next.lane`;

/**
 * Rows written so far, by table outside of the target. The numbers include earlier transactions of the session that the
 * server has not summed up yet, so they are compared with those at the beginning of the batch. $1 target
 */
export const WRITES_ELSEWHERE = `
  SELECT format('%I.%I', schemaname, relname) AS name, n_tup_ins + n_tup_upd + n_tup_del AS writes FROM pg_stat_xact_user_tables
  WHERE n_tup_ins + n_tup_upd + n_tup_del > 0 AND schemaname <> $1`;

/** $1 rebuild */
export const SKIPPED = 'SELECT position FROM rebuild_failure WHERE rebuild = $1';
