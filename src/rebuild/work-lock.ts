const KEY = (model: string) => `hashtext('sluice.rebuild.work'), hashtext(${model})`;

/**
 * Parts of a FROM that take a lock before the row of a rebuild. Row locks are not fair: a new FOR SHARE overtakes a FOR UPDATE
 * that waits, so batches that overlap would keep an operator or a switch waiting. Advisory locks are granted in turn.
 * `model` is an expression, such as a parameter.
 */
export const SHARED_WORK = (model: string) =>
  `(SELECT pg_advisory_xact_lock_shared(${KEY(model)}) OFFSET 0) AS work`;
export const EXCLUSIVE_WORK = (model: string) =>
  `(SELECT pg_advisory_xact_lock(${KEY(model)}) OFFSET 0) AS work`;
