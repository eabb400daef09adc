const names = new Map<string, string>();

/**
 * A statement that stays prepared on its connections: parsed and planned once, where planning costs more than the work
 * (measured: lease, claim and clear 3.3 ms, and 0.6 so). The plan is made without the values and stays whatever becomes
 * of the tables, so only for a statement that has one sensible plan, as `lane-queue.plans.spec.ts` proves of the
 * queue's. Behind a pooler nothing stays.
 */
export function kept(sql: string): string {
  if (!names.has(sql)) names.set(sql, `sluice_kept_${names.size + 1}`);
  return sql;
}

/** Its name, if it stays. */
export function keptName(sql: string): string | undefined {
  return names.get(sql);
}
