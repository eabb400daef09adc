import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { OLD_SNAPSHOT } from './old-snapshots.sql.ts';

const LOOK_EVERY_MS = 2_000;

/** Whether a transaction has been open for long, anywhere: a backup, a report, somebody who went to lunch. */
@Injectable()
export class OldSnapshots {
  /** Younger ones come and go with every query. */
  oldMs = 3_000;
  private found = false;
  private lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly database: Database) {}

  /** As of a moment ago. */
  async any(): Promise<boolean> {
    const now = performance.now();
    if (now - this.lookedAtMs < LOOK_EVERY_MS) return this.found;
    this.lookedAtMs = now;
    const [row] = await this.database.query<{ old: boolean }>(OLD_SNAPSHOT, [this.oldMs]);
    this.found = row!.old;
    return this.found;
  }
}
