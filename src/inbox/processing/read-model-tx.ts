import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import type { ReadModelTransaction, MessageToSend } from '../../contract/read-model-transaction.ts';
import type { Transaction } from '../../database/transaction.ts';
import { laneOf } from '../../lanes/lane-of.ts';
import type { IngestStore } from '../ingest-store.ts';
import { INBOX_LANES, type NewMessage } from '../new-message.ts';
import { checkSent } from './check-sent.ts';

export const DENORMALIZER_SOURCE = 'urn:sluice:denormalizers';

/** What a denormalizer gets: the transaction, and a way to send messages with it. */
export class ReadModelTx implements ReadModelTransaction {
  /** Sent so far; they are stored with one statement at the end, and their lanes woken after the commit. */
  readonly sent: NewMessage[] = [];

  constructor(private readonly tx: Transaction) {}

  get manager(): EntityManager {
    return this.tx.manager;
  }

  query<Row = unknown>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    return this.tx.query<Row>(sql, parameters);
  }

  /** Throws, not rejects, what cannot be sent: it is heard even where nobody awaits the sending. */
  send(message: MessageToSend): Promise<void> {
    checkSent(message);
    const id = randomUUID();
    const key = message.key ?? id;
    this.sent.push({
      id,
      source: DENORMALIZER_SOURCE,
      type: message.type,
      key,
      keyless: message.key === undefined,
      lane: laneOf(key, INBOX_LANES),
      payload: JSON.stringify(message.payload ?? null),
      headers: message.headers,
      occurredAt: undefined,
      dueAt: message.dueAt?.toISOString(),
      expiresAt: undefined,
      producer: undefined,
    });
    return Promise.resolve();
  }

  async storeSent(store: IngestStore): Promise<void> {
    if (this.sent.length) await store.insert(this.sent, this.tx);
  }
}
