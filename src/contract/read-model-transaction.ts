import type { EntityManager } from 'typeorm';

/** A new message, sent by a denormalizer; its fields are held to the rules of `POST /v1/messages`. */
export interface Sent {
  readonly type: string;
  readonly payload: unknown;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Not before this time. */
  readonly dueAt?: Date;
}

/**
 * The transaction in which messages take effect. What is done through it happens exactly once, together with the
 * fan-out and the message's end, or not at all. Do nothing through anything else.
 */
export interface ReadModelTransaction {
  /** TypeORM's EntityManager. */
  readonly manager: EntityManager;
  /** Plain SQL; `$1` for parameters. Statements that are not awaited one by one share a round trip. */
  query<Row = unknown>(sql: string, parameters?: readonly unknown[]): Promise<Row[]>;
  /** Puts a new message into the inbox with the same commit. Throws at once, with every fault, if it is not valid. */
  send(message: Sent): Promise<void>;
}
