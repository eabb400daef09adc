import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { isAssertionFailure } from '../../database/errors.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { groupBy } from '../../database/group-by.ts';
import type { Transaction } from '../../database/transaction.ts';
import { GUARDS } from '../../lanes/lease.ts';
import type { ClaimedMessage } from '../inbox-queue.ts';
import { END_MESSAGES, FIND_EXPIRED, FINISH, LAST_OF_SLOTS, PUT_BACK, SLOT_SETTINGS } from './settle.sql.ts';

/** Another replica has changed the rows since they were claimed. Nothing of this transaction may take effect. */
export class RowsChanged extends Error {}

/** The `error` of an expired message. */
export const EXPIRED_REASON = 'its expiresAt had passed';

export interface EndedMessage {
  readonly message: ClaimedMessage;
  readonly status: 'dead' | 'expired' | 'superseded';
  readonly error?: string;
  readonly by?: number;
  /** Whether the attempt counts. */
  readonly counted: boolean;
}

export interface PutBackMessage {
  readonly message: ClaimedMessage;
  readonly error?: string;
  readonly counted: boolean;
}

export interface SlotQuery {
  readonly key: string;
  readonly slot: string;
  readonly types: readonly string[];
}

/** Settles claimed messages, always inside a fenced transaction. */
@Injectable()
export class SettleStore {
  constructor(private readonly database: Database) {}

  async finish(messages: readonly ClaimedMessage[], tx: Transaction): Promise<void> {
    if (messages.length === 0) return;
    void tx.query(FORCE_INDEX_PLANS);
    const finished = runsOf(messages).flatMap((run) =>
      groupBy(run, ({ attempt }) => attempt).map((rows, index) =>
        tx.execute(FINISH, [
          rows.map(({ place }) => place),
          rows.map(({ position }) => position),
          rows[0]!.attempt,
          GUARDS.settledCount ? rows.length : null,
          index === 0,
        ]),
      ),
    );
    await Promise.all(finished).catch((error) => {
      throw isAssertionFailure(error) ? new RowsChanged('not all rows were there to be finished') : error;
    });
  }

  async end(ended: readonly EndedMessage[], tx: Transaction): Promise<void> {
    if (ended.length === 0) return;
    const values = [
      ended.map(({ message }) => message.position),
      ended.map(({ message }) => message.attempt),
      ended.map(({ status }) => status),
      ended.map(({ error }) => error ?? null),
      ended.map(({ by }) => by ?? null),
      ended.map(({ counted }) => counted),
    ];
    void tx.query(FORCE_INDEX_PLANS);
    await expectRows(tx.execute(END_MESSAGES, values), ended.length);
  }

  async putBack(rows: readonly PutBackMessage[], tx: Transaction): Promise<void> {
    if (rows.length === 0) return;
    const values = [
      rows.map(({ message }) => message.position),
      rows.map(({ message }) => message.attempt),
      rows.map(({ error }) => error ?? null),
      rows.map(({ counted }) => counted),
    ];
    void tx.query(FORCE_INDEX_PLANS);
    await expectRows(tx.execute(PUT_BACK, values), rows.length);
  }

  /** The messages that expired since they were claimed. */
  async expiredOf(messages: readonly ClaimedMessage[]): Promise<ClaimedMessage[]> {
    const expiring = messages.filter(({ expires_at }) => expires_at !== null);
    if (expiring.length === 0) return [];
    const rows = await this.database.query<{ position: number }>(FIND_EXPIRED, [
      expiring.map(({ position }) => position),
    ]);
    const late = new Set(rows.map(({ position }) => position));
    return expiring.filter(({ position }) => late.has(position));
  }

  async lastOfSlots(
    wanted: readonly SlotQuery[],
  ): Promise<{ key: string; slot: string; position: number }[]> {
    return this.database.transaction((tx) => {
      void tx.query(SLOT_SETTINGS);
      return tx.query(LAST_OF_SLOTS, [
        wanted.map(({ key }) => key),
        wanted.map(({ slot }) => slot),
        wanted.map(({ types }) => JSON.stringify(types)),
      ]);
    });
  }
}

/**
 * Runs of ascending positions, in the order in which they were applied. Messages that a rank puts in another order begin a
 * new run, with a number of its own, so that (applied, position) is always the order of application.
 */
function runsOf(messages: readonly ClaimedMessage[]): ClaimedMessage[][] {
  const runs: ClaimedMessage[][] = [];
  for (const message of messages) {
    const run = runs.at(-1);
    if (run && run.at(-1)!.position < message.position) run.push(message);
    else runs.push([message]);
  }
  return runs;
}

async function expectRows(changed: Promise<number>, expected: number): Promise<void> {
  const count = await changed;
  if (count !== expected && GUARDS.settledCount) {
    throw new RowsChanged(`changed ${count} of ${expected} rows`);
  }
}
