import { Injectable } from '@nestjs/common';
import { AWAIT_STANDBYS } from '../database/await-standbys.ts';
import { Database, type Statement } from '../database/database.ts';
import { FORCE_INDEX_PLANS } from '../database/force-index-plans.ts';
import type { Transaction } from '../database/transaction.ts';
import {
  ADD_PRODUCERS,
  COMPARE_ARCHIVED,
  COMPARE_MESSAGES,
  FIND_SEQUENCES,
  INSERT_FINISHED,
  INSERT_MESSAGES,
  LOCK_PRODUCERS,
  REMOVE_ARCHIVED,
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

  /** Returns the messages that were new, in no particular order: those that are neither in the inbox nor in history. */
  async insertNew(messages: readonly NewMessage[], tx?: Transaction): Promise<InsertedMessage[]> {
    const statements = insertAndCheck(messages);
    const results = tx
      ? await Promise.all(statements.map(([sql, values]) => tx.query<unknown>(sql, values)))
      : await this.database.inOneRoundTrip(statements);
    return withoutArchived(results);
  }

  /** Returns the positions of those that were new. They must be moved to history in the same transaction. */
  async insertFinished(
    messages: readonly NewMessage[],
    receivedAt: readonly string[],
    tx: Transaction,
  ): Promise<(InsertedMessage & { position: number })[]> {
    const [, ...check] = insertAndCheck(messages);
    const insert = [INSERT_FINISHED, [recordset(messages), receivedAt]] as const;
    const results = [insert, ...check].map(([sql, values]) => tx.query<unknown>(sql, values));
    return withoutArchived(await Promise.all(results)) as (InsertedMessage & { position: number })[];
  }

  /**
   * For messages that this service makes itself (of denormalizers, schedules and alerts): their ids are new, so they are not
   * looked for in history. Posts use `insertNew` or `insertWithPiggyback`.
   */
  insert(messages: readonly NewMessage[], on: Statements = this.database): Promise<InsertedMessage[]> {
    return on.query<InsertedMessage>(INSERT_MESSAGES, [recordset(messages)]);
  }

  /** Stores a message together with the statements of a piggyback lease. */
  async insertWithPiggyback(
    message: NewMessage,
    piggyback: readonly Statement[],
  ): Promise<{ inserted: InsertedMessage[]; results: unknown[][] }> {
    const stored = insertAndCheck([message]);
    const results = await this.database.inOneRoundTrip([...stored, ...piggyback]);
    return { inserted: withoutArchived(results), results: results.slice(stored.length) };
  }

  /** By index, the stored message of the same identity. It is as durable as an accepted one, once the transaction is committed. */
  async compare(messages: readonly NewMessage[], tx?: Transaction): Promise<Map<number, Comparison>> {
    const values = [recordset(messages)];
    // The inbox first: what is moved between the two statements is found by the second one.
    const statements = [
      [COMPARE_MESSAGES, values],
      [FORCE_INDEX_PLANS],
      [COMPARE_ARCHIVED, values],
      [AWAIT_STANDBYS],
    ] as const;
    const [stored, , archived] = tx
      ? await Promise.all(statements.map(([sql, parameters]) => tx.query<unknown>(sql, parameters)))
      : await this.database.inOneRoundTrip(statements);
    const rows = [...archived!, ...stored!] as (Comparison & { index: number })[];
    return new Map(rows.map((row) => [row.index, row]));
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

function insertAndCheck(messages: readonly NewMessage[]): readonly Statement[] {
  const identities = [messages.map(({ id }) => id), messages.map(({ source }) => source)];
  return [[INSERT_MESSAGES, [recordset(messages)]], [FORCE_INDEX_PLANS], [REMOVE_ARCHIVED, identities]];
}

function withoutArchived([inserted, , archived]: readonly unknown[][]): InsertedMessage[] {
  const rows = inserted as InsertedMessage[];
  if (archived!.length === 0) return rows;
  const removed = new Set((archived as InsertedMessage[]).map(identity));
  return rows.filter((row) => !removed.has(identity(row)));
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
