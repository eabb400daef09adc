import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';

/** A worker takes fewer lanes when leasing and claiming take more than this share of the time it has them leased. */
const HIGH_SHARE = 0.33;
/** Below this share it takes more lanes again. */
const LOW_SHARE = 0.25;

/** How a worker spent the time it had its lanes leased. */
export interface WorkTimes {
  /** Leasing and claiming. */
  readonly claimingMs: number;
  readonly totalMs: number;
  /** The first claim returned as many messages as it may. */
  readonly full: boolean;
}

/**
 * How many lanes a worker leases at a time. With many lanes a batch is full even if each lane has few messages. But each
 * claim steps over the settled rows of its lanes, which cannot be vacuumed while an old snapshot is open anywhere (a backup,
 * a report). With a backlog, a few lanes fill a batch as well, and the claim steps over fewer settled rows.
 */
export class LaneBudget {
  lanes: number;
  /** More messages were ready than one claim takes. */
  backlog = false;

  constructor(private readonly max: number) {
    this.lanes = max;
  }

  adapt({ claimingMs, totalMs, full }: WorkTimes): void {
    this.backlog = full;
    if (!full || claimingMs < totalMs * LOW_SHARE) this.lanes = Math.min(this.max, this.lanes * 2);
    else if (claimingMs > totalMs * HIGH_SHARE) this.lanes = Math.max(1, Math.floor(this.lanes / 2));
  }
}

/**
 * inbox.oldSnapshot — whether a transaction that began more than $1 ms ago may still see old row versions: then rows that
 * were settled since cannot be vacuumed. A transaction that has written prevents that as much as one that reads. Autovacuum
 * has a snapshot too, but does not prevent it. Sessions of other roles show their times only to members of
 * pg_read_all_stats. $1 ms
 */
export const OLD_SNAPSHOT = `
  SELECT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
      AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
      AND xact_start < clock_timestamp() - $1 * interval '1 millisecond') AS old`;

const CHECK_EVERY_MS = 2_000;

/** Whether any transaction of the database has been open for long: a backup, a report, a forgotten session. */
@Injectable()
export class OldSnapshots {
  /** Every query has a younger snapshot for a moment; those do not count. */
  oldMs = 3_000;
  private found = false;
  private checkedAtMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly database: Database) {}

  /** As of the last check, at most two seconds ago. */
  async any(): Promise<boolean> {
    const now = performance.now();
    if (now - this.checkedAtMs < CHECK_EVERY_MS) return this.found;
    this.checkedAtMs = now;
    const [row] = await this.database.query<{ old: boolean }>(OLD_SNAPSHOT, [this.oldMs]);
    this.found = row!.old;
    return this.found;
  }
}
