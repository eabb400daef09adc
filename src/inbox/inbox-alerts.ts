import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { type Alert, Alerts } from '../contract/alerts.ts';
import type { Transaction } from '../database/transaction.ts';
import { laneOf } from '../lanes/lane-of.ts';
import { Wakeups } from '../lanes/wakeups.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { IngestStore } from './ingest-store.ts';
import { INBOX_LANES, type NewMessage } from './new-message.ts';

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
    const lane = laneOf(key, INBOX_LANES);
    const message: NewMessage = {
      id: randomUUID(),
      source: SOURCE,
      type: `${SOURCE}/${name}`,
      key,
      keyless: false,
      lane,
      payload: JSON.stringify(details),
      headers: undefined,
      occurredAt: new Date().toISOString(),
      dueAt: undefined,
      expiresAt: undefined,
      producer: undefined,
    };
    await this.store.insert([message], tx);
    // One that is not committed yet would be looked for in vain; a poll finds it.
    if (!tx) this.wakeups.announce('inbox', new Set([lane]));
  }
}
