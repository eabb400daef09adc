import { prepared } from './prepared.ts';

/**
 * Runs in the same transaction before statements that find their rows by an index. On a table that has grown since it was
 * last analysed, or was never analysed, the planner would scan the whole table for a few rows (measured: 450–1,500 ms
 * instead of about 1 ms). Statements that stay prepared get their generic plan on first use, not only on the sixth.
 */
export const FORCE_INDEX_PLANS = forceIndexPlans();

/** The same, for transactions whose COMMIT does not have to wait until it is on disk. */
export const FORCE_INDEX_PLANS_ASYNC_COMMIT = forceIndexPlans({ synchronous_commit: 'off' });

/** Like several SET LOCAL, but as one statement, which can stay prepared and be pipelined with the statements after it. */
function forceIndexPlans(more: Readonly<Record<string, string>> = {}): string {
  const settings = {
    enable_seqscan: 'off',
    enable_bitmapscan: 'off',
    enable_hashjoin: 'off',
    enable_mergejoin: 'off',
    jit: 'off',
    plan_cache_mode: 'force_generic_plan',
    ...more,
  };
  const set = Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', true)`);
  return prepared(`SELECT concat(${set.join(', ')}) AS settings`);
}
