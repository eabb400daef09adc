/** history.shareImports — a rebuild that starts waits for this transaction, and this transaction sees one that has started. */
export const SHARE_IMPORTS = `SELECT pg_advisory_xact_lock_shared(hashtext('sluice'), hashtext('history.import'))`;

/** history.rebuildAtWork — one that has switched, or was rolled back, has read all of history. */
export const REBUILD_AT_WORK = `
  SELECT model FROM rebuild WHERE ended_at IS NULL AND status NOT IN ('switched', 'rolled-back') LIMIT 1`;
