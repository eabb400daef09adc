/** How far a group is in a partition, and who reads it; see the table group_cursor. */
export interface Cursor {
  readonly topic: number;
  readonly partition: number;
  /** The first offset that it covers. */
  readonly start: number;
  /** The last offset that it covers; null: all later ones. */
  readonly bound: number | null;
  readonly committed: number;
  readonly handed: number;
  readonly owner: string | null;
  readonly former_owner: string | null;
  readonly draining: boolean;
  readonly fence: number;
  readonly deaths: number;
  readonly retry_to: number;
}

/** From this number of deaths on, messages that were handed out before are handed out one at a time. */
const DEATHS_UNTIL_ALONE = 2;

export function isIdle({ committed, handed }: Cursor): boolean {
  return committed >= handed;
}

/** Its owner left: what it had in flight is handed out again, and no attempt is counted. */
export function afterLeave(cursor: Cursor): Cursor {
  return { ...cursor, handed: cursor.committed, owner: null, former_owner: cursor.owner, draining: false };
}

/**
 * Its owner died. What it had in flight is handed out again. A message that was in flight alone and used up its attempts is
 * `exhausted`: it becomes a dead letter, and the cursor moves past it.
 */
export function afterDeath(cursor: Cursor, attempts: number): { cursor: Cursor; exhausted: boolean } {
  const { committed, handed, retry_to, deaths } = cursor;
  const free = afterLeave(cursor);
  if (isIdle(cursor)) return { cursor: free, exhausted: false };
  const exhausted = handed === committed + 1 && deaths + 1 >= attempts;
  const moved = exhausted ? handed : committed;
  const retryTo = Math.max(retry_to, handed);
  return {
    exhausted,
    cursor: {
      ...free,
      committed: moved,
      handed: moved,
      retry_to: retryTo,
      deaths: exhausted ? deathsAfterCommit({ deaths, retry_to: retryTo }, moved) : deaths + 1,
    },
  };
}

/** The commit SQL computes the same. A message that was processed does not count as the one that kills. */
function deathsAfterCommit(
  { deaths, retry_to }: Pick<Cursor, 'deaths' | 'retry_to'>,
  committed: number,
): number {
  return committed >= retry_to ? 0 : Math.min(deaths, DEATHS_UNTIL_ALONE);
}

/** Its next message is handed out alone: only when the one before is committed. */
export const IS_ALONE = (cursor: string, attempts: string) =>
  `${cursor}.deaths >= LEAST(${DEATHS_UNTIL_ALONE}, ${attempts}) AND ${cursor}.committed < ${cursor}.retry_to`;

export const DEATHS_AFTER_COMMIT = (cursor: string, committed: string) =>
  `CASE WHEN ${committed} >= ${cursor}.retry_to THEN 0 ELSE LEAST(${cursor}.deaths, ${DEATHS_UNTIL_ALONE}) END`;
