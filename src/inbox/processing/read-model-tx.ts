import type { EntityManager } from 'typeorm';
import type { MessageToSend, ReadModelTransaction } from '../../contract/read-model-transaction.ts';
import type { Transaction } from '../../database/transaction.ts';
import { pointerTo } from '../../http/pointer.ts';
import {
  checkHeader,
  checkHeaderCount,
  checkHeadersSize,
  checkKey,
  checkText,
  checkTime,
  Faults,
  MAX_TYPE,
} from '../fields.ts';
import type { IngestStore } from '../ingest-store.ts';
import { type NewMessage, newMessage } from '../new-message.ts';

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

type Check = (text: string, pointer: string, faults: Faults) => unknown;

const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * A message that a denormalizer sends must satisfy the same rules as a posted one. Stored unchecked, it would fail the whole
 * batch at its end, when it is no longer known who sent it, or it would be a message that no route can address.
 */
export function checkSent({ type, key, headers = {}, dueAt }: MessageToSend): void {
  const faults = new Faults();
  check(type, '/type', faults, (text) => checkText(text, MAX_TYPE, '/type', faults));
  if (key !== undefined) check(key, '/key', faults, checkKey);
  checkHeaderCount(Object.keys(headers).length, '/headers', faults);
  for (const [name, value] of Object.entries(headers))
    check(value, pointerTo('/headers', name), faults, (text, at) => checkHeader(name, text, at, faults));
  // The size of a value that is no string is unknown; that is a fault already.
  if (faults.list.length === 0) checkHeadersSize(headers, '/headers', faults);
  if (dueAt !== undefined) checkTime(timeText(dueAt), '/dueAt', faults);
  if (faults.list.length === 0) return;
  const list = faults.list.map(({ pointer, detail }) => `${pointer} ${detail}`);
  throw new Error(`a message cannot be sent: ${list.join('; ')}`);
}

/** The value may come from a payload, so it can be anything, in spite of its declared type. */
function check(value: unknown, pointer: string, faults: Faults, rule: Check): void {
  if (typeof value !== 'string') faults.add(pointer, 'must be a string');
  else if (LONE_SURROGATE.test(value)) faults.add(pointer, 'must not contain half of a surrogate pair');
  else rule(value, pointer, faults);
}

function timeText(time: Date): string {
  return Number.isNaN(time.getTime()) ? '' : time.toISOString();
}
