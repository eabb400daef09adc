const names = new Map<string, string>();

/**
 * Marks a statement that stays prepared on its connections: parsed and planned once, because planning costs more than
 * running it (measured: lease, claim and clear took 3.3 ms, and 0.6 ms this way). The plan is made without the values and
 * never changes, however the tables grow. So this is only for statements that have one sensible plan;
 * `lane-queue.plans.spec.ts` checks that for the statements of the queue. Behind a pooler no statement stays prepared.
 */
export function prepared(sql: string): string {
  if (!names.has(sql)) names.set(sql, `sluice_kept_${names.size + 1}`);
  return sql;
}

/** The name of a statement that stays prepared; undefined for every other statement. */
export function preparedName(sql: string): string | undefined {
  return names.get(sql);
}

/**
 * Numbers in the engine's own statements are counts, limits and times. The server would only report that "NaN" is not a
 * bigint, without naming the statement. Statements of read models are not checked.
 */
export function refuseNaN(sql: string, values: readonly unknown[]): void {
  const index = values.findIndex((value) =>
    Array.isArray(value) ? value.some(isNaNOrInfinite) : isNaNOrInfinite(value),
  );
  if (index < 0) return;
  const opening = sql.trim().replace(/\s+/g, ' ').slice(0, 80);
  throw new RangeError(`parameter $${index + 1} of "${opening}…" is not a finite number: ${values[index]}`);
}

function isNaNOrInfinite(value: unknown): boolean {
  return typeof value === 'number' && !Number.isFinite(value);
}
