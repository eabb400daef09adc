import { Inject, Injectable } from '@nestjs/common';
import type { Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Alerts } from '../../contract/alerts.ts';
import { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import { COUNT_QUEUES, SET_REPORTED, TRY_ALARM_LOCK } from './alarms.sql.ts';

const EVERY_MS = 2_000;

interface QueueCount {
  readonly queue: string;
  readonly listener: string | null;
  readonly count: number;
  /** The threshold of the last alert; 0: none since there were fewer. */
  readonly reported: number;
}

/** E6: an alert each time a queue comes to have as many dead letters as a threshold says. */
@Injectable()
export class DeadLetterAlarms {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly database: Database,
    private readonly alerts: Alerts,
    loops: Loops,
  ) {
    loops.run('upkeep', 'dead-letter-alarms', EVERY_MS, () => this.pass());
  }

  private async pass(): Promise<Next> {
    await this.database.transaction(async (tx) => {
      const [turn] = await tx.query<{ mine: boolean }>(TRY_ALARM_LOCK);
      if (!turn?.mine) return;
      const most = Math.max(...this.settings.deadLetterAlerts.flatMap(({ thresholds }) => thresholds));
      for (const row of await tx.query<QueueCount>(COUNT_QUEUES, [most])) await this.report(row, tx);
    });
    return 'idle';
  }

  /** One transaction: an alert is raised once, and not forgotten with a replica that dies. */
  private async report({ queue, listener, count, reported }: QueueCount, tx: Transaction): Promise<void> {
    const reached = this.thresholdsOf(listener ?? 'inbox').findLast((threshold) => threshold <= count) ?? 0;
    if (reached === reported) return;
    if (reached > reported) {
      const where = listener === null ? { stage: 'inbox' } : { stage: 'outbox', listener };
      const details = { ...where, threshold: reached, atLeast: count };
      await this.alerts.raise({ name: 'dead-letters', key: queue, details }, tx);
    }
    await tx.execute(SET_REPORTED, [queue, reached]);
  }

  private thresholdsOf(queue: string): readonly number[] {
    const { deadLetterAlerts } = this.settings;
    const own = deadLetterAlerts.find((one) => one.queue === queue);
    return (own ?? deadLetterAlerts.find((one) => one.queue === undefined))?.thresholds ?? [];
  }
}
