import { Injectable } from '@nestjs/common';
import { AWAIT_STANDBYS } from '../database/await-standbys.ts';
import { Database, type Statement } from '../database/database.ts';
import { FORCE_INDEX_PLANS } from '../database/force-index-plans.ts';
import type { Transaction } from '../database/transaction.ts';
import {
  ADD_PRODUCERS,
  COMPARE_MESSAGES,
  FIND_SEQUENCES,
  INSERT_MESSAGES,
  LOCK_PRODUCERS,
  SAVE_PRODUCERS,
} from './ingest.sql.ts';
import type { Status } from './messages-store.ts';
import { type NewMessage, sourceOfCaller } from './new-message.ts';
import { fromMultirange, type ProducerState, toMultirange } from './producer-sequence.ts';

type Statements = Pick<Transaction, 'query' | 'execute'>;

/** A producer is identified by the source of its api key and its own id. */
export interface ProducerName {
  readonly source: string;
  readonly id: string;
}

export interface StoredStatus {
  readonly status: Status;
}

export interface InsertedMessage extends StoredStatus {
  readonly id: string;
  readonly source: string;
}

export interface Comparison extends StoredStatus {
  readonly same: boolean;
}

/** The statements of ingest, on a connection of their own or inside a transaction. */
@Injectable()
export class IngestStore {
  constructor(private readonly database: Database) {}

  transaction<Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result> {
    return this.database.transaction(work);
  }

  /** Returns the messages that were new, in no particular order. */
  insert(messages: readonly NewMessage[], on: Statements = this.database): Promise<InsertedMessage[]> {
    return on.query<InsertedMessage>(INSERT_MESSAGES, [recordset(messages)]);
  }

  /** Stores a message together with the statements of a piggyback lease. */
  async insertWithPiggyback(
    message: NewMessage,
    piggyback: readonly Statement[],
  ): Promise<{ inserted: InsertedMessage[]; results: unknown[][] }> {
    const insert = [INSERT_MESSAGES, [recordset([message])]] as const;
    const [inserted, , ...results] = await this.database.inOneRoundTrip([
      insert,
      [FORCE_INDEX_PLANS],
      ...piggyback,
    ]);
    return { inserted: inserted as InsertedMessage[], results };
  }

  /** By index, the stored message of the same identity. It is as durable as an accepted one, once the transaction is committed. */
  async compare(messages: readonly NewMessage[], tx?: Transaction): Promise<Map<number, Comparison>> {
    const compare = [COMPARE_MESSAGES, [recordset(messages)]] as const;
    const [rows] = tx
      ? await Promise.all([tx.query<unknown>(...compare), tx.query(AWAIT_STANDBYS)])
      : await this.database.inOneRoundTrip([compare, [AWAIT_STANDBYS]]);
    return new Map((rows as (Comparison & { index: number })[]).map((row) => [row.index, row]));
  }

  /**
   * Locks the producers until the transaction ends; unknown producers are added. A producer that retention deletes between
   * the two statements is added in the second round.
   */
  async lockProducers(names: readonly ProducerName[], tx: Transaction): Promise<Map<string, ProducerState>> {
    const parameter = [JSON.stringify(names)];
    const round = async () => {
      const [, found] = await Promise.all([
        tx.execute(ADD_PRODUCERS, parameter),
        tx.query<ProducerName & { last: number; missing: string }>(LOCK_PRODUCERS, parameter),
      ]);
      return found;
    };
    let rows = await round();
    if (rows.length < names.length) rows = await round();
    return new Map(
      rows.map((row) => [identity(row), { last: row.last, missing: fromMultirange(row.missing) }]),
    );
  }

  async saveProducers(states: readonly (ProducerName & ProducerState)[], tx: Transaction): Promise<void> {
    const rows = states.map(({ source, id, last, missing }) => ({
      source,
      id,
      last,
      missing: toMultirange(missing),
    }));
    await tx.execute(SAVE_PRODUCERS, [JSON.stringify(rows)]);
  }

  async findSequences(
    messages: readonly NewMessage[],
    tx: Transaction,
  ): Promise<Map<number, StoredStatus & { id: string }>> {
    const wanted = messages.map((message) => ({
      source: message.source,
      producer: producerIn(message),
      sequence: message.producer!.sequence,
    }));
    const rows = await tx.query<StoredStatus & { id: string; index: number }>(FIND_SEQUENCES, [
      JSON.stringify(wanted),
    ]);
    return new Map(rows.map((row) => [row.index, row]));
  }
}

/** One string for (source, id); neither can contain a NUL. */
export function identity({ id, source }: { id: string; source: string }): string {
  return `${source}\u0000${id}`;
}

/** Built by hand: the payload is JSON already and must not be changed. */
function recordset(messages: readonly NewMessage[]): string {
  return `[${messages.map(record).join(',')}]`;
}

function record(message: NewMessage): string {
  const { id, source, type, key, keyless, lane, payload, headers, occurredAt, dueAt, expiresAt, producer } =
    message;
  let text = `{"id":${JSON.stringify(id)},"source":${JSON.stringify(source)},"type":${JSON.stringify(type)}`;
  text += `,"key":${JSON.stringify(key)},"lane":${lane}`;
  text += isEscapedString(payload) ? `,"escaped":${JSON.stringify(payload)}` : `,"payload":${payload}`;
  if (keyless) text += ',"keyless":true';
  if (headers) text += `,"headers":${JSON.stringify(headers)}`;
  if (occurredAt) text += `,"occurred_at":"${occurredAt}"`;
  if (dueAt) text += `,"due_at":"${dueAt}"`;
  if (expiresAt) text += `,"expires_at":"${expiresAt}"`;
  if (producer) text += `,"producer":${JSON.stringify(producerIn(message))},"sequence":${producer.sequence}`;
  return `${text}}`;
}

/** As it is stored in rows: two api keys may post for one source, each with a producer of the same id. No name of an api key contains a `/`. */
function producerIn({ source, producer }: NewMessage): string {
  const { caller, id } = producer!;
  return source === sourceOfCaller(caller) ? id : `${caller}/${id}`;
}

/** PostgreSQL decodes a string in the record and encodes it again: `"\u0041"` would be stored as `"A"`. */
function isEscapedString(json: string): boolean {
  return json.startsWith('"') && json.includes('\\');
}
