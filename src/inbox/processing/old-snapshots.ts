import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { OLD_SNAPSHOT } from './old-snapshots.sql.ts';

const LOOK_EVERY_MS = 2_000;

/** Whether any transaction of the database has been open for long: a backup, a report, a forgotten session. */
@Injectable()
export class OldSnapshots {
  /** Every query has a younger snapshot for a moment; those do not count. */
  oldMs = 3_000;
  private found = false;
  private lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly database: Database) {}

  /** As of the last check, at most two seconds ago. */
  async any(): Promise<boolean> {
    const now = performance.now();
    if (now - this.lookedAtMs < LOOK_EVERY_MS) return this.found;
    this.lookedAtMs = now;
    const [row] = await this.database.query<{ old: boolean }>(OLD_SNAPSHOT, [this.oldMs]);
    this.found = row!.old;
    return this.found;
  }
}
