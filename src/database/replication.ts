/**
 * replication.read — what a COMMIT of this session waits for, and the standbys that follow. The columns of a standby are
 * NULL for a role that may not read them: `hidden`.
 */
export const READ_REPLICATION = `
  SELECT current_setting('synchronous_standby_names') AS names, current_setting('synchronous_commit') AS commits,
         count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))::int AS synchronous,
         count(*) FILTER (WHERE sync_state = 'potential')::int AS potential,
         count(*) FILTER (WHERE sync_state = 'async' AND state = 'streaming')::int AS asynchronous,
         count(pid) FILTER (WHERE state IS NULL)::int AS hidden
  FROM pg_stat_replication`;

/** The row that READ_REPLICATION returns. */
export interface Replication {
  /** As in `synchronous_standby_names`; empty: no commit waits for a standby. */
  readonly names: string;
  /** As in `synchronous_commit`. */
  readonly commits: string;
  /** Standbys whose confirmation counts. */
  readonly synchronous: number;
  /** Those that would take the place of one of them. */
  readonly potential: number;
  readonly asynchronous: number;
  /** Standbys whose state this role may not see. */
  readonly hidden: number;
}

/** How each connected standby is counted. */
export const STANDBY_STATES = ['synchronous', 'potential', 'asynchronous', 'hidden'] as const;

type Query = (sql: string) => Promise<readonly Replication[]>;

export async function readReplication(query: Query): Promise<Replication> {
  const [row] = await query(READ_REPLICATION);
  return row!;
}

/** `on`, `remote_apply` and `remote_write`: the standby has received the commit. */
const WAITING_COMMITS = ['on', 'remote_apply', 'remote_write'];

/** How many standbys confirm a commit before it returns; 0: it is confirmed by the primary alone. */
export function standbysNeeded({ names, commits }: Replication): number {
  if (names.trim() === '' || !WAITING_COMMITS.includes(commits)) return 0;
  // `ANY n (a, b)`, `FIRST n (a, b)` or `n (a, b)`; a list without a number is FIRST 1.
  const [, number] = /^\s*(?:(?:any|first)\s+)?(\d+)\s*\(/i.exec(names) ?? [];
  return Number(number ?? 1);
}

/** Nothing that needs a confirmation can be committed now. Undefined: the role may not see the standbys. */
export function commitsWait(replication: Replication): boolean | undefined {
  const missing = standbysNeeded(replication) > replication.synchronous;
  return missing && replication.hidden > 0 ? undefined : missing;
}
