/** history.shareImports — a rebuild that starts waits for this transaction, and this transaction sees one that has started. */
export const SHARE_IMPORTS = `SELECT pg_advisory_xact_lock_shared(hashtext('sluice'), hashtext('history.import'))`;

/** history.openRebuild — also one that has switched: its lanes are past the places of imported messages. */
export const OPEN_REBUILD = `
  SELECT model, status IN ('switched', 'rolled-back') AS kept FROM rebuild WHERE ended_at IS NULL ORDER BY kept LIMIT 1`;
