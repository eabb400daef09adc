import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { splitByBytes } from '../../database/split-by-bytes.ts';
import { Archive } from '../../history/archive.ts';
import { HistoryFailures } from '../../history/history-failures.ts';
import { HistoryRules } from '../../history/history-rules.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { payloadStep, type SweepContext } from './retention-step.ts';

/** A finished message that is to be moved to history. */
export type Archivable = readonly [position: number, bytes: number];

/** What one transaction loads, unless one message alone is larger. */
const MAX_BYTES = 8 * 1024 * 1024;

/** A full disk fails for every message; one message that cannot be moved must not hold up the others. */
const MAX_FAILED = 3;

/** The part of retention that moves messages to history. */
@Injectable()
export class Archiving {
  readonly likePatterns: readonly string[];
  private readonly archived;
  private failedInARow = 0;

  constructor(
    private readonly database: Database,
    private readonly history: Archive,
    private readonly failures: HistoryFailures,
    rules: HistoryRules,
    metrics: Metrics,
  ) {
    this.likePatterns = rules.likePatterns;
    this.archived = metrics.counter('history_archived_total', 'Messages moved from the inbox to history.');
  }

  /** Every sweep tries again. */
  startSweep(): void {
    this.failedInARow = 0;
  }

  /** Returns how many were moved. What cannot be moved stays in the inbox, and keeps nothing else from being removed. */
  async archive(messages: readonly Archivable[], { signal, progressed }: SweepContext): Promise<number> {
    let count = 0;
    for (const part of splitByBytes(messages, MAX_BYTES, ([, bytes]) => bytes)) {
      if (signal.aborted || this.failedInARow >= MAX_FAILED) break;
      count += await this.move(part.map(([position]) => position));
      progressed();
    }
    return count;
  }

  private async move(positions: readonly number[]): Promise<number> {
    try {
      const moved = await this.failures.watch('archive', () =>
        payloadStep(this.database, (tx) => {
          void tx.query(FORCE_INDEX_PLANS);
          return this.history.move(positions, tx);
        }),
      );
      this.failedInARow = 0;
      this.archived.inc(moved ?? 0);
      return moved ?? 0;
    } catch {
      this.failedInARow += 1;
      return 0;
    }
  }
}
