/** retention.turn — only one replica sweeps at a time. */
export const TRY_TURN = `SELECT pg_try_advisory_xact_lock(hashtext('sluice'), hashtext('retention.turn')) AS mine`;

/**
 * retention.blockEntries — waits for transactions that point further entries to settled messages (rejections and revives of
 * groups), and keeps out new ones until this one ends. Without it, an entry could point to a message that is removed here.
 */
export const BLOCK_ENTRIES = `SELECT pg_advisory_xact_lock(hashtext('sluice'), hashtext('retention'))`;
