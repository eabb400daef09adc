import { groupBy } from '../../database/group-by.ts';

interface Keyed {
  readonly key: string;
}

/** For each key the first one that failed with those behind it, and all the others. */
export function separateFailed<Row extends Keyed>(
  rows: readonly Row[],
  guilty: readonly Row[],
): { others: Row[]; alone: Row[][] } {
  const failed = new Set(guilty);
  const alone = new Map<string, Row[]>();
  const others: Row[] = [];
  for (const row of rows) {
    const behind = alone.get(row.key);
    if (behind) behind.push(row);
    else if (failed.has(row)) alone.set(row.key, [row]);
    else others.push(row);
  }
  return { others, alone: [...alone.values()] };
}

/** The messages of a key stay together. */
export function halves<Row extends Keyed>(rows: readonly Row[]): Row[][] {
  const keys = groupBy(rows, ({ key }) => key);
  const middle = Math.ceil(keys.length / 2);
  return [keys.slice(0, middle).flat(), keys.slice(middle).flat()];
}
