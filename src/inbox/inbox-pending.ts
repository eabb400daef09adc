import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Semaphore } from '../clock/semaphore.ts';
import { Pending } from '../contract/pending.ts';
import { Database } from '../database/database.ts';
import { isConflictOfTransactions } from '../database/faults.ts';
import { type Transaction, TransactionTimeout } from '../database/transaction.ts';
import { Problem, retryAfter } from '../http/problems.ts';
import { laneOf } from '../lanes/lane-of.ts';
import type { ClaimedMessage } from './claimed-message.ts';
import { ApplyFailed, DenormalizerRunner } from './denormalizers/denormalizer-runner.ts';
import { Denormalizers } from './denormalizers/denormalizers.ts';
import { INBOX_LANES } from './new-message.ts';
import { ONE_SNAPSHOT, PENDING_MESSAGES } from './pending.sql.ts';
import { inParts, withPayloads } from './processing/payloads.ts';
import { ReadModelTx } from './processing/read-model-tx.ts';
import { triage } from './processing/triage-rules.ts';

/** A burst beyond this, or beyond what may be in memory, is not laid over: the answer is then as of the first so many. */
const MAX_MESSAGES = 1_000;
const MAX_TRIES = 5;
/** Of the engine's connections; a flood of such reads must not keep messages from being processed. */
const MAX_AT_ONCE = 2;
/** Who comes when so many wait already would wait for seconds. */
const MAX_WAITING = 64;
/** For an apply that does not end; below the time after which the server would end an idle session. */
const PATIENCE_MS = 4_000;

/** Carries the answer out of a transaction that must not stay. */
class RolledBack<T> extends Error {
  constructor(readonly answer: T) {
    super('rolled back');
  }
}

/** Applies a key's waiting messages for real, reads, and rolls back: what will be is computed by what will do it. */
@Injectable()
export class InboxPending extends Pending {
  private readonly turns = new Semaphore(MAX_AT_ONCE);

  constructor(
    private readonly database: Database,
    private readonly denormalizers: Denormalizers,
    private readonly effects: DenormalizerRunner,
  ) {
    super();
  }

  async read<T>(key: string, read: (manager: EntityManager) => Promise<T>): Promise<T> {
    if (this.turns.waiting >= MAX_WAITING)
      throw new Problem('overloaded', 'Too many wait for what is pending; ask again.', retryAfter(1));
    await this.turns.acquire();
    try {
      for (let attempt = 1; attempt <= MAX_TRIES; attempt++) {
        const answer = await this.tryToRead(key, read);
        if (answer) return answer.answer;
      }
    } finally {
      this.turns.release();
    }
    throw behind('Messages of this key are being applied; ask again.');
  }

  /** Undefined: the processor is at the same rows; the next look finds them applied. */
  private async tryToRead<T>(
    key: string,
    read: (manager: EntityManager) => Promise<T>,
  ): Promise<RolledBack<T> | undefined> {
    try {
      return await this.database.transaction((tx) =>
        tx.withTimeout(PATIENCE_MS, this.lookAhead(key, read, tx)),
      );
    } catch (error) {
      if (error instanceof RolledBack) return error;
      if (error instanceof TransactionTimeout)
        throw behind('The waiting messages of this key are not through in time.');
      if (isConflictOfTransactions(error)) return undefined;
      throw error;
    }
  }

  private async lookAhead<T>(
    key: string,
    read: (manager: EntityManager) => Promise<T>,
    tx: Transaction,
  ): Promise<never> {
    await tx.execute(ONE_SNAPSHOT);
    await this.applyWaiting(key, tx);
    throw new RolledBack(await read(tx.manager));
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
    // One that would fail is left out, with those behind it: so it will be.
    for (const message of messages) if (!(await this.applied([message], tx))) return;
  }

  private async applied(messages: readonly ClaimedMessage[], tx: Transaction): Promise<boolean> {
    await tx.execute('SAVEPOINT pending');
    try {
      await this.effects.apply(messages, new ReadModelTx(tx), new Map());
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
