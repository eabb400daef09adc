import { Inject, Injectable } from '@nestjs/common';
import { ScheduledJobs } from '../../clock/scheduled-jobs.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Alerts } from '../../contract/alerts.ts';
import { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import { COUNT_QUEUES, SET_REPORTED, TRY_ALARM_LOCK } from './alarms.sql.ts';

const INTERVAL_MS = 2_000;

interface QueueCount {
  readonly queue: string;
  readonly listener: string | null;
  readonly group: string | null;
  readonly count: number;
  /** The threshold of the last alert; 0 if none was reached, or the count fell below all of them since. */
  readonly reported: number;
}

/** Raises an alert each time the number of dead letters of a queue reaches a threshold. */
@Injectable()
export class DeadLetterAlarms {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly database: Database,
    private readonly alerts: Alerts,
    jobs: ScheduledJobs,
  ) {
    jobs.add({
      role: 'upkeep',
      name: 'dead-letter-alarms',
      intervalMs: INTERVAL_MS,
      runAtStart: true,
      run: () => this.check(),
    });
  }

  private async check(): Promise<void> {
    await this.database.transaction(async (tx) => {
      const [lock] = await tx.query<{ mine: boolean }>(TRY_ALARM_LOCK);
      if (!lock?.mine) return;
      const maxThreshold = Math.max(
        ...this.settings.deadLetterAlerts.flatMap(({ thresholds }) => thresholds),
      );
      for (const row of await tx.query<QueueCount>(COUNT_QUEUES, [maxThreshold])) await this.report(row, tx);
    });
  }

  /** The alert and its record are one transaction: it is raised exactly once, even if the replica crashes. */
  private async report(row: QueueCount, tx: Transaction): Promise<void> {
    const { queue, listener, group, count, reported } = row;
    const setting = listener ?? queue;
    const reached = this.thresholdsOf(setting).findLast((threshold) => threshold <= count) ?? 0;
    if (reached === reported) return;
    if (reached > reported) {
      const where = {
        stage: queue.split('/')[0],
        ...(listener === null ? {} : { listener }),
        ...(group === null ? {} : { group }),
      };
      const details = { ...where, threshold: reached, atLeast: count };
      await this.alerts.raise({ name: 'dead-letters', key: queue, details }, tx);
    }
    await tx.execute(SET_REPORTED, [queue, reached]);
  }

  /** `queue` as DEAD_LETTER_ALERTS names it: inbox, a listener, or group/ and the name of a group. */
  private thresholdsOf(queue: string): readonly number[] {
    const { deadLetterAlerts } = this.settings;
    const own = deadLetterAlerts.find((one) => one.queue === queue);
    return (own ?? deadLetterAlerts.find((one) => one.queue === undefined))?.thresholds ?? [];
  }
}
