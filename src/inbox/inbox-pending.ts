import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Semaphore } from '../clock/semaphore.ts';
import { Pending } from '../contract/pending.ts';
import { Database } from '../database/database.ts';
import { isConflictOfTransactions } from '../database/errors.ts';
import { type Transaction, TransactionTimeout } from '../database/transaction.ts';
import { Problem, retryAfter } from '../http/problems.ts';
import { laneOf } from '../lanes/lane-of.ts';
import { ApplyFailed, DenormalizerRunner } from './denormalizers/denormalizer-runner.ts';
import { Denormalizers } from './denormalizers/denormalizers.ts';
import { type ClaimedMessage, inParts, withPayloads } from './inbox-queue.ts';
import { INBOX_LANES } from './new-message.ts';
import { ONE_SNAPSHOT, PENDING_MESSAGES, SCHEMA_SWITCHED } from './pending.sql.ts';
import { ReadModelTx } from './processing/read-model-tx.ts';
import { triage } from './processing/triage.ts';

/** Max waiting messages that are applied; also no more than fit into memory. The result is then as of the last of those. */
const MAX_MESSAGES = 1_000;
const MAX_TRIES = 5;
/** Each of these reads takes a connection of the engine; many of them must not delay the processing of messages. */
const MAX_AT_ONCE = 2;
/** Beyond this many, a reader would wait for seconds. */
const MAX_WAITING = 64;
/** For an apply that hangs; shorter than the time after which the server ends an idle session. */
const TIMEOUT_MS = 4_000;

/** Carries the result out of a transaction that must be rolled back. */
class RolledBack<T> extends Error {
  constructor(readonly result: T) {
    super('rolled back');
  }
}

/** The read model was switched to another schema after the snapshot was taken: its rows are as of an unknown moment. */
class SchemaSwitched extends Error {}

/** Applies a key's waiting messages with the real denormalizers, reads the result, and rolls back. */
@Injectable()
export class InboxPending extends Pending {
  private readonly readers = new Semaphore(MAX_AT_ONCE);

  constructor(
    private readonly database: Database,
    private readonly denormalizers: Denormalizers,
    private readonly runner: DenormalizerRunner,
  ) {
    super();
  }

  async read<T>(key: string, read: (manager: EntityManager) => Promise<T>): Promise<T> {
    if (this.readers.waiting >= MAX_WAITING)
      throw new Problem(
        'overloaded',
        'Too many requests wait for pending messages; try again.',
        retryAfter(1),
      );
    await this.readers.acquire();
    try {
      for (let attempt = 1; attempt <= MAX_TRIES; attempt++) {
        const rolledBack = await this.tryToRead(key, read);
        if (rolledBack) return rolledBack.result;
      }
    } finally {
      this.readers.release();
    }
    throw behind('Messages of this key are being applied; try again.');
  }

  /** Undefined: the processor is changing the same rows; the next try finds them applied. */
  private async tryToRead<T>(
    key: string,
    read: (manager: EntityManager) => Promise<T>,
  ): Promise<RolledBack<T> | undefined> {
    try {
      return await this.database.transaction((tx) =>
        tx.withTimeout(TIMEOUT_MS, this.readAhead(key, read, tx)),
      );
    } catch (error) {
      if (error instanceof RolledBack) return error;
      if (error instanceof TransactionTimeout)
        throw behind('The waiting messages of this key were not processed in time.');
      if (error instanceof SchemaSwitched || isConflictOfTransactions(error)) return undefined;
      throw error;
    }
  }

  private async readAhead<T>(
    key: string,
    read: (manager: EntityManager) => Promise<T>,
    tx: Transaction,
  ): Promise<never> {
    await tx.execute(ONE_SNAPSHOT);
    await this.applyWaiting(key, tx);
    const result = await read(tx.manager);
    const [moved] = await tx.query(SCHEMA_SWITCHED);
    if (moved) throw new SchemaSwitched();
    throw new RolledBack(result);
  }

  private async applyWaiting(key: string, tx: Transaction): Promise<void> {
    const waiting = await tx.query<ClaimedMessage>(PENDING_MESSAGES, [
      laneOf(key, INBOX_LANES),
      key,
      MAX_MESSAGES,
    ]);
    const { ready } = triage(waiting, {
      slotOf: (type) => this.denormalizers.slotOf(type),
      rankOf: (type) => this.denormalizers.rankOf(type),
      lastOf: new Map(),
    });
    const wanted = ready.filter(
      ({ type }) => !this.denormalizers.of(type).some(({ instance }) => instance.prepare),
    );
    const [first = []] = inParts(wanted);
    const messages = await withPayloads(first, tx);
    if (await this.applied(messages, tx)) return;
    // A message that fails is left out with all messages behind it, as the processor would do.
    for (const message of messages) if (!(await this.applied([message], tx))) return;
  }

  private async applied(messages: readonly ClaimedMessage[], tx: Transaction): Promise<boolean> {
    await tx.execute('SAVEPOINT pending');
    try {
      await this.runner.apply(messages, new ReadModelTx(tx), new Map());
      await tx.execute('RELEASE SAVEPOINT pending');
      return true;
    } catch (error) {
      const reason = error instanceof ApplyFailed ? error.reason : error;
      if (isConflictOfTransactions(reason)) throw reason;
      await tx.execute('ROLLBACK TO SAVEPOINT pending');
      return false;
    }
  }
}

function behind(detail: string): Problem {
  return new Problem('read-model-behind', detail, retryAfter(1));
}
