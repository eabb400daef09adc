import { prepared } from './prepared.ts';

/**
 * For statements that go straight to their rows, in one transaction with them: on a table that grew since it was last
 * analysed, or never was, the planner would read all of it for the few rows that are named (measured: 450–1,500 ms
 * instead of about 1). Those that are `kept` are planned without their values, at once and not from the sixth time on.
 */
export const FORCE_INDEX_PLANS = forceIndexPlans();

/** The same where what is committed need not be on disk yet. */
export const FORCE_INDEX_PLANS_ASYNC_COMMIT = forceIndexPlans({ synchronous_commit: 'off' });

/** As SET LOCAL does, but one statement for all: it can stay prepared, and be sent with its neighbours. */
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
