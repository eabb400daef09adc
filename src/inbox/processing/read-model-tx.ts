import type { EntityManager } from 'typeorm';
import type { MessageToSend, ReadModelTransaction } from '../../contract/read-model-transaction.ts';
import type { Transaction } from '../../database/transaction.ts';
import type { IngestStore } from '../ingest-store.ts';
import { type NewMessage, newMessage } from '../new-message.ts';
import { checkSent } from './check-sent.ts';

export const DENORMALIZER_SOURCE = 'urn:sluice:denormalizers';

/** The transaction as a denormalizer sees it, with a way to send messages in it. */
export class ReadModelTx implements ReadModelTransaction {
  /** Sent so far. They are stored by one statement at the end; their lanes are woken after the commit. */
  readonly sent: NewMessage[] = [];

  constructor(private readonly tx: Transaction) {}

  get manager(): EntityManager {
    return this.tx.manager;
  }

  query<Row = unknown>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    return this.tx.query<Row>(sql, parameters);
  }

  /** Throws for a bad message instead of rejecting, so that the error is noticed even if the caller does not await. */
  send(message: MessageToSend): Promise<void> {
    checkSent(message);
    const { type, key, payload, headers, dueAt } = message;
    this.sent.push(
      newMessage({
        source: DENORMALIZER_SOURCE,
        type,
        key,
        payload: JSON.stringify(payload ?? null),
        headers,
        dueAt: dueAt?.toISOString(),
      }),
    );
    return Promise.resolve();
  }

  async storeSent(store: IngestStore): Promise<void> {
    if (this.sent.length) await store.insert(this.sent, this.tx);
  }
}
