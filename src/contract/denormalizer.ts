import { Injectable, type Type } from '@nestjs/common';
import type { Message } from './message.ts';
import type { ReadModelTransaction } from './read-model-transaction.ts';

export interface DenormalizerOptions {
  /** The types it wants, each named once. */
  readonly types: readonly string[];
  /**
   * A class with class-validator decorators, or one for each type. A payload that does not match is refused: a dead
   * letter that names every fault. One that does is an instance of the class, so `instanceof` tells types apart.
   */
  readonly payload?: PayloadClass;
  /** Says who it is in logs and metrics; the class name by default. Unique. */
  readonly name?: string;
  /** Denormalizers of one type run in ascending order; 0 by default. */
  readonly order?: number;
  /**
   * By default messages of different keys are applied side by side, their statements in one round trip. Set it when
   * `apply` reads a row that other keys change too and writes back what it computed; and lock that row (`FOR UPDATE`):
   * other workers and replicas are at it at the same time.
   */
  readonly sequential?: boolean;
  /**
   * Of several waiting messages of one key in one slot only the last is handled; the others end as superseded. One that
   * expires supersedes none that does not, or later: it may be gone before it is applied.
   * `{ 'campaign-edited': 'edit', 'campaign-started': 'run', 'campaign-stopped': 'run' }`
   */
  readonly coalesce?: Readonly<Record<string, string>>;
  /** Messages of one key that wait together are handled in ascending rank, then in order; 0 by default. */
  readonly rank?: Readonly<Record<string, number>>;
}

export type PayloadClass = Type<object> | Readonly<Record<string, Type<object>>>;

/** What a denormalizer does: `apply`, or `applyBatch` for set-based SQL. */
export interface DenormalizerMethods<Payload = unknown, Prepared = unknown> {
  /**
   * Applies one message. Must be a function of the message and of what stands in the database: it may run again.
   * Messages of one key come one after the other, whichever denormalizers handle them.
   */
  apply?(message: Message<Payload>, tx: ReadModelTransaction, prepared: Prepared): Promise<void>;
  /**
   * Applies many at once, of many keys, each key's in order. It has its turn before or after those with `apply`, over
   * the whole batch: let it write tables that no other denormalizer writes.
   */
  applyBatch?(messages: readonly Message<Payload>[], tx: ReadModelTransaction): Promise<void>;
  /** For calls outside: runs before, without transaction or connection; what it returns is given to `apply`. */
  prepare?(message: Message<Payload>, signal: AbortSignal): Promise<Prepared>;
}

export const DENORMALIZER = Symbol('Denormalizer');

/** Marks a class that applies messages to a read model; list it among the providers of its module. */
export function Denormalizer(options: DenormalizerOptions): ClassDecorator {
  return (target) => {
    Reflect.defineMetadata(DENORMALIZER, options, target);
    Injectable()(target);
  };
}
