import type { EntityManager } from 'typeorm';

/** A new message that a denormalizer sends. Its fields follow the same rules as in `POST /v1/messages`. */
export interface MessageToSend {
  readonly type: string;
  readonly payload: unknown;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The message is not handled before this time. */
  readonly dueAt?: Date;
}

/**
 * The database transaction in which a batch of messages takes effect. Everything written through it is committed exactly
 * once, together with the fan-out to listeners and the final status of the messages, or not at all. An effect that does
 * not go through it is not rolled back and may happen more than once.
 */
export interface ReadModelTransaction {
  /** TypeORM's EntityManager on this transaction. */
  readonly manager: EntityManager;
  /**
   * Runs plain SQL with `$1`, `$2`, … as parameters. Statements that are started without awaiting each one share a round
   * trip.
   */
  query<Row = unknown>(sql: string, parameters?: readonly unknown[]): Promise<Row[]>;
  /**
   * Adds a new message to the inbox in the same commit. Throws at once if the message is not valid; the error lists every
   * invalid field.
   */
  send(message: MessageToSend): Promise<void>;
}
