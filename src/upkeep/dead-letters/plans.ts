/**
 * For every look at dead letters: a table that grew since it was last analysed, or never was, would be read whole for the
 * few that are dead.
 */
export const PLANS = `
  SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off;
  SET LOCAL enable_mergejoin = off; SET LOCAL jit = off`;
