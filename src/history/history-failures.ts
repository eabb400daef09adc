import { Inject, Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';

/** history.failed — `since` stays the time of the first failure. $1 work, $2 error */
export const FAILED = `
  INSERT INTO history_failure (work, error) VALUES ($1, $2) ON CONFLICT (work) DO UPDATE SET error = EXCLUDED.error`;

/** history.succeeded — $1 work */
export const SUCCEEDED = 'DELETE FROM history_failure WHERE work = $1';

export type Work = 'archive' | 'upkeep';

/** Notes that work on history fails, where every replica sees it, until it succeeds again. */
@Injectable()
export class HistoryFailures {
  private readonly failed;

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    metrics: Metrics,
  ) {
    this.failed = metrics.counter('history_failed_total', 'Failures of work on history; each is retried.');
  }

  /** Undefined: there was nothing to do, so it is not known whether it would succeed. */
  async watch<Result>(work: Work, run: () => Promise<Result>): Promise<Result> {
    try {
      const result = await run();
      // Another replica may have noted a failure.
      if (result !== undefined) await this.database.execute(SUCCEEDED, [work]);
      return result;
    } catch (error) {
      this.failed.inc();
      this.log.error({ event: 'history.failed', work, error }, 'work on history failed; it will be retried');
      await this.note(work, error as Error);
      throw error;
    }
  }

  /** If the disk is full, this may fail as well. */
  private async note(work: Work, error: Error): Promise<void> {
    await this.database.execute(FAILED, [work, error.message.slice(0, 500)]).catch((reason) => {
      this.log.warn({ event: 'history.failure-not-noted', error: reason }, 'a failure could not be recorded');
    });
  }
}
