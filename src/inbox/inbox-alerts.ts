import { Inject, Injectable } from '@nestjs/common';
import { type Alert, Alerts } from '../contract/alerts.ts';
import type { Transaction } from '../database/transaction.ts';
import { Wakeups } from '../lanes/wakeups.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { IngestStore } from './ingest-store.ts';
import { newMessage } from './new-message.ts';

const SOURCE = 'urn:sluice:alerts';

/** Alerts are messages like any other: a listener for `urn:sluice:alerts/*` gets them as signed webhooks. */
@Injectable()
export class InboxAlerts extends Alerts {
  constructor(
    private readonly store: IngestStore,
    private readonly wakeups: Wakeups,
    @Inject(LOG) private readonly log: Log,
  ) {
    super();
  }

  async raise({ name, key, details }: Alert, tx?: Transaction): Promise<void> {
    this.log.error({ event: `alert.${name}`, alertKey: key, ...details }, 'an alert was raised');
    const message = newMessage({
      source: SOURCE,
      type: `${SOURCE}/${name}`,
      key,
      payload: JSON.stringify(details),
      occurredAt: new Date().toISOString(),
    });
    await this.store.insert([message], tx);
    // Inside a transaction it is not visible yet, so a wake-up would find nothing; polling finds it after the commit.
    if (!tx) this.wakeups.announce('inbox', new Set([message.lane]));
  }
}
