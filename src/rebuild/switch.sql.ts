import { MIGRATION_LOCK } from '../database/migrate.ts';
import { EXCLUSIVE_WORK } from './work-lock.ts';

/** Every lane of the inbox: batches in flight end first, new ones wait at their fence. */
export const LOCK_INBOX = `SELECT lane FROM lane WHERE queue = 'inbox' ORDER BY lane FOR NO KEY UPDATE`;

/** $1 rebuild, $2 model */
export const LOCK_REBUILD = `
  SELECT id FROM ${EXCLUSIVE_WORK('$2')}, rebuild WHERE id = $1 AND status = 'switching' AND NOT paused FOR UPDATE OF rebuild`;

/** Whether no replica migrates now, nor does until the switch is over. */
export const LOCK_MIGRATIONS = `SELECT pg_try_advisory_xact_lock(${MIGRATION_LOCK}) AS taken`;

/**
 * A migration that only the living schema has: a replica of another version has run it since the rebuild began.
 * $1 rebuild
 */
export const MISSING_MIGRATION = (living: string, target: string) => `
  SELECT name FROM ${living}.migration EXCEPT SELECT name FROM ${target}.migration
  EXCEPT SELECT unnest(known_migrations) FROM rebuild WHERE id = $1 ORDER BY name LIMIT 1`;

/** What would keep to the old tables: views and foreign keys from outside. $1 living schema */
export const DEPENDENTS = `
  SELECT DISTINCT format('view %s', view.oid::regclass) AS name
  FROM pg_depend JOIN pg_rewrite ON pg_rewrite.oid = objid JOIN pg_class AS view ON view.oid = ev_class
  JOIN pg_class AS used ON used.oid = refobjid JOIN pg_namespace ON pg_namespace.oid = used.relnamespace
  WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_class'::regclass AND nspname = $1
    AND view.relnamespace <> used.relnamespace
  UNION ALL
  SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
  JOIN pg_class AS source ON source.oid = conrelid JOIN pg_class AS target ON target.oid = confrelid
  JOIN pg_namespace ON pg_namespace.oid = target.relnamespace
  WHERE contype = 'f' AND nspname = $1 AND source.relnamespace <> target.relnamespace LIMIT 1`;

/** Messages that were left out without a reason. $1 rebuild */
export const LEFT_OUT = 'SELECT count(*) AS count FROM rebuild_failure WHERE rebuild = $1 AND reason IS NULL';

/** Until an operator decides. $1 rebuild, $2 reason */
export const ASK = `UPDATE rebuild SET status = 'ready', waits_for = $2 WHERE id = $1 AND status = 'switching'`;

/** Back to following the living schema, and why. $1 rebuild, $2 reason */
export const FOLLOW_AGAIN = `UPDATE rebuild SET status = 'replaying', waits_for = $2 WHERE id = $1 AND status = 'switching'`;

/** $1 rebuild, $2 status, $3 target, $4 ms */
export const SWITCHED = `
  UPDATE rebuild SET status = $2, target = $3, switched_at = clock_timestamp(), pause_ms = $4, waits_for = NULL,
         drain_until = NULL, drains = 0 WHERE id = $1`;
