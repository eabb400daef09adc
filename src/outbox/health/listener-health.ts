import { type BeforeApplicationShutdown, Inject, Injectable } from '@nestjs/common';
import type { Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Alerts } from '../../contract/alerts.ts';
import { Database } from '../../database/database.ts';
import type { Listener } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { COUNT_REFUSAL, FAILING_FOR_DAYS, NOTE_SUCCESS } from './health.sql.ts';

const NOTE_EVERY_MS = 10_000;
const HOPELESS_AFTER_MS = 5 * 86_400_000;
const HOPELESS_DEAD = 10;

/** E11: whether a listener is still worth trying; when not, it is disabled, and somebody is told. Nothing is lost. */
@Injectable()
export class ListenerHealth implements BeforeApplicationShutdown {
  /** When a listener last succeeded here, if that is not noted yet. */
  private readonly succeeded = new Map<number, number>();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly listeners: Listeners,
    private readonly alerts: Alerts,
    loops: Loops,
  ) {
    loops.run('outbox', 'listener-health', NOTE_EVERY_MS, () => this.pass());
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.noteSuccesses().catch(() => undefined);
  }

  /** Written down now and then. */
  succeededWith({ number }: Listener): void {
    this.succeeded.set(number, performance.now());
  }

  /** In a row: a success that is not noted yet ends the series all the same. */
  async answeredWith(listener: Listener, status: number): Promise<void> {
    const rule = listener.disableAfter;
    if (!rule || rule.status !== status) return;
    const succeededAtMs = this.succeeded.get(listener.number);
    const agoMs = succeededAtMs === undefined ? null : performance.now() - succeededAtMs;
    const values = [listener.number, agoMs, listener.revision];
    const [row] = await this.database.query<{ refusals: number }>(COUNT_REFUSAL, values);
    if (row && row.refusals >= rule.times)
      await this.disable(listener, `answered ${status} ${row.refusals} times in a row`);
  }

  /** Told in the same transaction: one who comes later finds it disabled, and would not tell. */
  async disable(listener: Listener, reason: string): Promise<void> {
    const { name } = listener;
    const details = { listener: name, reason, next: `POST /v1/listeners/${name}/resume` };
    await this.listeners.disable(listener, reason, (tx) =>
      this.alerts.raise({ name: 'listener-disabled', key: name, details }, tx),
    );
  }

  private async pass(): Promise<Next> {
    await this.noteSuccesses();
    const values = [HOPELESS_AFTER_MS, HOPELESS_DEAD];
    for (const { listener: number } of await this.database.query<{ listener: number }>(
      FAILING_FOR_DAYS,
      values,
    )) {
      const listener = this.listeners.byNumber(number);
      if (listener)
        await this.disable(listener, `no success for 5 days, ${HOPELESS_DEAD} or more deliveries given up`);
    }
    return 'idle';
  }

  private async noteSuccesses(): Promise<void> {
    const noted = [...this.succeeded];
    if (noted.length === 0) return;
    this.succeeded.clear();
    const now = performance.now();
    const values = [noted.map(([listener]) => listener), noted.map(([, atMs]) => now - atMs)];
    await this.database.execute(NOTE_SUCCESS, values);
    this.log.trace({ event: 'outbox.successes-noted', listeners: noted.length }, 'noted');
  }
}
