import { type BeforeApplicationShutdown, Inject, Injectable } from '@nestjs/common';
import { ScheduledJobs } from '../../clock/scheduled-jobs.ts';
import { Alerts } from '../../contract/alerts.ts';
import { Database } from '../../database/database.ts';
import type { Listener } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { COUNT_REFUSAL, FAILING_FOR_DAYS, NOTE_SUCCESS } from './health.sql.ts';

const INTERVAL_MS = 10_000;
const DISABLE_AFTER_MS = 5 * 86_400_000;
const MIN_DEAD_LETTERS = 10;

/** Disables a listener that keeps failing, and raises an alert. Its deliveries stay pending; nothing is lost. */
@Injectable()
export class ListenerHealth implements BeforeApplicationShutdown {
  /** When a listener last succeeded on this replica, if that is not written yet. */
  private readonly succeeded = new Map<number, number>();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly listeners: Listeners,
    private readonly alerts: Alerts,
    jobs: ScheduledJobs,
  ) {
    jobs.add({
      role: 'outbox',
      name: 'listener-health',
      intervalMs: INTERVAL_MS,
      runAtStart: true,
      run: () => this.check(),
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.writeSuccesses().catch(() => undefined);
  }

  /** Kept in memory; `check` writes it. */
  succeededWith({ number }: Listener): void {
    this.succeeded.set(number, performance.now());
  }

  /** Counts refusals in a row; a success that is not written yet ends the series as well. */
  async respondedWith(listener: Listener, status: number): Promise<void> {
    const rule = listener.disableAfter;
    if (!rule || rule.status !== status) return;
    const succeededAtMs = this.succeeded.get(listener.number);
    const agoMs = succeededAtMs === undefined ? null : performance.now() - succeededAtMs;
    const values = [listener.number, agoMs, listener.revision];
    const [row] = await this.database.query<{ refusals: number }>(COUNT_REFUSAL, values);
    if (row && row.refusals >= rule.times)
      await this.disable(listener, `responded ${status} ${row.refusals} times in a row`);
  }

  /** The alert is raised in the same transaction: a later caller finds the listener disabled and would not raise it. */
  async disable(listener: Listener, reason: string): Promise<void> {
    const { name } = listener;
    const details = { listener: name, reason, next: `POST /v1/listeners/${name}/resume` };
    await this.listeners.disable(listener, reason, (tx) =>
      this.alerts.raise({ name: 'listener-disabled', key: name, details }, tx),
    );
  }

  private async check(): Promise<void> {
    await this.writeSuccesses();
    const values = [DISABLE_AFTER_MS, MIN_DEAD_LETTERS];
    for (const { listener: number } of await this.database.query<{ listener: number }>(
      FAILING_FOR_DAYS,
      values,
    )) {
      const listener = this.listeners.byNumber(number);
      if (listener)
        await this.disable(
          listener,
          `no success for 5 days, ${MIN_DEAD_LETTERS} or more deliveries given up`,
        );
    }
  }

  private async writeSuccesses(): Promise<void> {
    const successes = [...this.succeeded];
    if (successes.length === 0) return;
    this.succeeded.clear();
    const now = performance.now();
    const values = [successes.map(([listener]) => listener), successes.map(([, atMs]) => now - atMs)];
    await this.database.execute(NOTE_SUCCESS, values);
    this.log.trace(
      { event: 'outbox.successes-written', listeners: successes.length },
      'the last successes of listeners were written',
    );
  }
}
