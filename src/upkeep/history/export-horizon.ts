import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Reads } from '../../database/reads.ts';
import { Problem, retryAfter } from '../../http/problems.ts';

/** history.lastApplied — the last number that a transaction has taken; those that have it may not have committed yet. */
export const LAST_APPLIED = `
  SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS last FROM inbox_applied_seq`;

/**
 * history.atWork — transactions that have locked a lane, as all do before they take a number. Row locks are not in `pg_locks`,
 * but the lock on the table that comes with them is.
 */
export const AT_WORK = `
  SELECT DISTINCT virtualtransaction AS id FROM pg_locks
  WHERE locktype = 'relation' AND relation = 'lane'::regclass AND mode IN ('RowShareLock', 'RowExclusiveLock') AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** history.stillAtWork — $1 transactions */
export const STILL_AT_WORK = 'SELECT FROM pg_locks WHERE virtualtransaction = ANY ($1::text[]) LIMIT 1';

const POLL_MS = 20;
/** A batch of live messages may take as long as its denormalizers do. */
const MAX_WAIT_MS = 30_000;

/**
 * Up to which `applied` an export may read. A transaction takes its number before it commits: behind the last number there is,
 * a cursor of several lanes would pass over what another transaction commits later.
 */
@Injectable()
export class ExportHorizon {
  constructor(private readonly reads: Reads) {}

  /** Waits until all that have taken a number up to now have ended. It locks nothing, so live messages do not wait for it. */
  async get(): Promise<number> {
    const [row] = await this.reads.query<{ last: number | string }>(LAST_APPLIED);
    // A later statement: whoever has taken such a number has locked its lanes before, and is found, or has ended.
    const atWork = await this.reads.query<{ id: string }>(AT_WORK);
    const ids = atWork.map(({ id }) => id);
    const untilMs = performance.now() + MAX_WAIT_MS;
    while (ids.length > 0 && (await this.reads.query(STILL_AT_WORK, [ids])).length > 0) {
      if (performance.now() >= untilMs)
        throw new Problem('overloaded', 'A batch of live messages takes too long; try again.', retryAfter(1));
      await pause(POLL_MS);
    }
    return Number(row!.last);
  }
}
