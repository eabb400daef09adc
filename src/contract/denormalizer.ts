import { Injectable, type Type } from '@nestjs/common';
import type { Message } from './message.ts';
import type { ReadModelTransaction } from './read-model-transaction.ts';

export interface DenormalizerOptions {
  /** The message types it handles. List each type once. */
  readonly types: readonly string[];
  /**
   * A class with class-validator decorators for all types, or one class per type. A message whose payload is not valid
   * becomes a dead letter at once, and its error lists every invalid field. A valid payload is passed to `apply` as an
   * instance of its class, so `instanceof` distinguishes the types.
   */
  readonly payload?: PayloadClass;
  /** The name in logs and metrics. Must be unique. Default: the class name. */
  readonly name?: string;
  /** Denormalizers that handle the same type run in ascending order. Default: 0. */
  readonly order?: number;
  /**
   * By default, messages of different keys are applied concurrently and their statements share a round trip. Set this to
   * apply one message at a time, if `apply` reads a row that messages of other keys also change and writes back a value
   * it computed from that row. Also lock that row (`FOR UPDATE`): `sequential` covers one batch, and other workers and
   * replicas apply their batches at the same time.
   */
  readonly sequential?: boolean;
  /**
   * Maps a message type to a slot. If several messages of one key wait in the same slot, only the last one is handled
   * and the others end as `superseded`. A message with an `expiresAt` never supersedes one that has none or a later one,
   * because it might expire before it is applied.
   *
   *     coalesce: { 'campaign-edited': 'edit', 'campaign-started': 'run', 'campaign-stopped': 'run' }
   */
  readonly coalesce?: Readonly<Record<string, string>>;
  /**
   * Maps a message type to a rank. Messages of one key that wait together are handled in ascending rank; messages of
   * equal rank, in the order they were accepted. Default: 0.
   */
  readonly rank?: Readonly<Record<string, number>>;
  /**
   * What a rebuild of the read model does with `prepare`. `again` (the default) calls it for every message, a limited number at
   * a time; `skip` passes undefined to `apply`, for a result that is only needed the first time.
   */
  readonly rebuild?: { readonly prepare: 'again' | 'skip' };
}

export type PayloadClass = Type<object> | Readonly<Record<string, Type<object>>>;

/**
 * The methods of a denormalizer. Implement either `apply`, for one message at a time, or `applyBatch`, for set-based SQL
 * over many messages. `prepare` is optional and belongs to `apply`.
 */
export interface DenormalizerMethods<Payload = unknown, Prepared = unknown> {
  /**
   * Applies one message to the read model. It may run more than once, because a failed transaction is rolled back and
   * retried: its effect must depend only on the message and on the rows in the database. Messages of one key are applied
   * one after the other, whichever denormalizers handle them.
   */
  apply?(message: Message<Payload>, tx: ReadModelTransaction, prepared: Prepared): Promise<void>;
  /**
   * Applies many messages of many keys at once; the messages of each key are in order. The whole batch is applied either
   * before or after the denormalizers that implement `apply` (see `order`), so write only to tables that no other
   * denormalizer writes to.
   */
  applyBatch?(messages: readonly Message<Payload>[], tx: ReadModelTransaction): Promise<void>;
  /**
   * Calls other services. It runs before the transaction and holds no database connection; its result is passed to
   * `apply`. The signal aborts when the call exceeds `INBOX_PREPARE_TIMEOUT` or the replica stops.
   */
  prepare?(message: Message<Payload>, signal: AbortSignal): Promise<Prepared>;
}

export const DENORMALIZER = Symbol('Denormalizer');

/**
 * Marks a class that applies messages to a read model (see `DenormalizerMethods`). Also list the class in the
 * `providers` of its module.
 */
export function Denormalizer(options: DenormalizerOptions): ClassDecorator {
  return (target) => {
    Reflect.defineMetadata(DENORMALIZER, options, target);
    Injectable()(target);
  };
}
