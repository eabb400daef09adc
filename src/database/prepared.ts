const names = new Map<string, string>();

/**
 * A statement that stays prepared on its connections: parsed and planned once, where planning costs more than the work
 * (measured: lease, claim and clear 3.3 ms, and 0.6 so). The plan is made without the values and stays whatever becomes
 * of the tables, so only for a statement that has one sensible plan, as `lane-queue.plans.spec.ts` proves of the
 * queue's. Behind a pooler nothing stays.
 */
export function prepared(sql: string): string {
  if (!names.has(sql)) names.set(sql, `sluice_kept_${names.size + 1}`);
  return sql;
}

/** Its name, if it stays. */
export function preparedName(sql: string): string | undefined {
  return names.get(sql);
}

/**
 * The engine's own statements have counts, limits and times for numbers; the server would only say that "NaN" is no bigint,
 * without a word about which statement of which loop. Read models' statements are their authors' business.
 */
export function refuseNaN(sql: string, values: readonly unknown[]): void {
  const index = values.findIndex((value) =>
    Array.isArray(value) ? value.some(isNaNOrInfinite) : isNaNOrInfinite(value),
  );
  if (index < 0) return;
  const opening = sql.trim().replace(/\s+/g, ' ').slice(0, 80);
  throw new RangeError(`parameter $${index + 1} of "${opening}…" is no finite number: ${values[index]}`);
}

function isNaNOrInfinite(value: unknown): boolean {
  return typeof value === 'number' && !Number.isFinite(value);
}
