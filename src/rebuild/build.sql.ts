/** $1 rebuild */
export const LOCK_BUILDING = `SELECT id FROM rebuild WHERE id = $1 AND status = 'building' AND NOT paused FOR UPDATE SKIP LOCKED`;
/** $1 rebuild, $2 messages */
export const BUILT = `UPDATE rebuild SET status = 'replaying', total = $2, replay_from = clock_timestamp() WHERE id = $1`;

/** $1 rebuild, $2 failure */
export const FAIL = `UPDATE rebuild SET status = 'failed', failure = $2 WHERE id = $1 AND ended_at IS NULL`;

/** Rights on the living tables are not copied with them. $1 living, $2 next */
export const GRANTS = `
  SELECT format('GRANT %s ON %I.%I TO %s', privilege_type, $2::text, table_name, CASE grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(grantee) END) AS sql
  FROM information_schema.role_table_grants WHERE table_schema = $1 AND grantee <> current_user
    AND to_regclass(format('%I.%I', $2::text, table_name)) IS NOT NULL
  UNION ALL
  SELECT format('GRANT USAGE ON SCHEMA %I TO %s', $2::text, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(grantee::regrole::text) END)
  FROM pg_namespace, aclexplode(nspacl) WHERE nspname = $1 AND privilege_type = 'USAGE' AND grantee <> nspowner`;

/** Views for replicas of the previous version, which would keep to the old tables. $1 the comment, $2 living schema */
export const OLD_VIEWS = `
  SELECT format('DROP VIEW public.%I', relname) AS sql FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind = 'v' AND obj_description(oid, 'pg_class') = $1
    AND to_regclass(format('%I.%I', $2::text, relname)) IS NOT NULL`;
