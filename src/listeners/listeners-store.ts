import { Inject, Injectable, Optional } from '@nestjs/common';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import { isName } from '../http/names.ts';
import { Problem } from '../http/problems.ts';
import type { StoredDefinition } from './effective-definition.ts';
import type { ListenerMode, ListenerState } from './listener.ts';
import type { HealthRow } from './listener-health-view.ts';
import {
  ANY_LISTENER,
  BRING_BACK_LISTENER,
  DELETE_LISTENER,
  DELETED_NUMBERS,
  FORGET_URLS,
  HAS_PENDING,
  HEALTH,
  INSERT_LANES,
  INSERT_LISTENER,
  LISTENER,
  LISTENERS_PAGE,
  LIVE_LISTENERS,
  LOCK_LANES,
  REPLACE_LISTENER,
  RESEAL_LISTENER,
  REVISION,
  SET_LANES,
  SET_STATE,
  STILL_CURRENT,
  TAKE_TURN,
} from './listeners.sql.ts';

export interface ListenerRow {
  readonly number: number;
  readonly name: string;
  readonly revision: number;
  readonly definition: StoredDefinition;
  readonly lanes: number;
  /** The Confidential part. */
  readonly sealed: string;
  readonly secret_from: 'service' | 'file';
  readonly origin: Origin;
  readonly state: ListenerState;
  readonly state_reason: string | null;
  readonly state_since: Date;
  readonly state_by: string;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly deleted_at: Date | null;
}

export type Origin = 'api' | 'file';

export interface StateChange {
  readonly from: readonly ListenerState[];
  readonly reason: string | null;
  readonly by: string;
  /** Only if the listener is still at this revision. */
  readonly revision?: number;
}

/** Injection token of the SharedDefinitions; nothing is injected without CELLS. */
export const SHARED_DEFINITIONS = Symbol('SharedDefinitions');

/** With CELLS, definitions are changed in the home cell and copied to the others. */
export interface SharedDefinitions {
  /** Undefined in the home cell itself. */
  readonly home: Database | undefined;
}

/** A definition as it is stored. */
export interface ListenerContent {
  readonly name: string;
  readonly definition: StoredDefinition;
  readonly sealed: string;
  readonly secretFrom: ListenerRow['secret_from'];
}

@Injectable()
export class ListenersStore {
  constructor(
    private readonly database: Database,
    @Optional() @Inject(SHARED_DEFINITIONS) private readonly shared: SharedDefinitions | undefined,
  ) {}

  /** Every change goes through here: one writer at a time over all replicas. */
  change<Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result> {
    return (this.shared?.home ?? this.database).transaction(async (tx) => {
      await tx.query(TAKE_TURN);
      return work(tx);
    });
  }

  async revision(tx: Pick<Transaction, 'query'> = this.database): Promise<{ revision: number; now: Date }> {
    const [row] = await tx.query<{ revision: number; now: Date }>(REVISION);
    return row!;
  }

  /** Rejects if anything has changed since. */
  async stillAt(revision: number, tx: Transaction): Promise<void> {
    await tx.query(STILL_CURRENT, [revision]);
  }

  live(tx: Pick<Transaction, 'query'> = this.database): Promise<ListenerRow[]> {
    return tx.query(LIVE_LISTENERS);
  }

  async deletedNumbers(): Promise<number[]> {
    const rows = await this.database.query<{ number: number }>(DELETED_NUMBERS);
    return rows.map(({ number }) => number);
  }

  /** Throws a 404 if there is none. Reads the database: the copy in memory may be a second old. */
  async existing(name: string): Promise<ListenerRow> {
    const [row] = await this.database.query<ListenerRow>(LISTENER, [existingName(name)]);
    if (!row) throw noListener();
    return row;
  }

  /** Also a deleted one. */
  async findAny(name: string, tx: Transaction): Promise<ListenerRow | undefined> {
    const [row] = await tx.query<ListenerRow>(ANY_LISTENER, [name]);
    return row;
  }

  async health(listeners: readonly Pick<ListenerRow, 'number'>[]): Promise<ReadonlyMap<number, HealthRow>> {
    const rows = await this.database.query<HealthRow>(HEALTH, [listeners.map(({ number }) => number)]);
    return new Map(rows.map((row) => [row.listener, row]));
  }

  page(after: string | undefined, limit: number): Promise<ListenerRow[]> {
    return this.database.query(LISTENERS_PAGE, [after ?? '', limit]);
  }

  async insert(
    { name, definition, sealed, secretFrom }: ListenerContent,
    more: { readonly lanes: number; readonly origin: Origin; readonly by: string },
    tx: Transaction,
  ): Promise<ListenerRow> {
    const { lanes, origin, by } = more;
    const values = [
      name,
      JSON.stringify(definition),
      definition.types,
      lanes,
      sealed,
      secretFrom,
      origin,
      by,
    ];
    const [row] = await tx.query<ListenerRow>(INSERT_LISTENER, values);
    await tx.execute(INSERT_LANES, [row!.number, lanes, definition.mode === 'pull']);
    return row!;
  }

  /** False, and nothing is changed: it has pending deliveries, which are meant for the other mode. */
  async switchMode(number: number, mode: ListenerMode, tx: Transaction): Promise<boolean> {
    if (this.shared)
      throw new Problem('conflict', 'With CELLS a listener keeps its mode; create another listener.');
    await tx.query(LOCK_LANES, [number]);
    // A separate statement sees what was claimed until the lanes were locked.
    if ((await tx.query(HAS_PENDING, [number])).length > 0) return false;
    await tx.execute(SET_LANES, [number, mode === 'pull']);
    return true;
  }

  async replace(content: ListenerContent, by: string, tx: Transaction): Promise<ListenerRow> {
    const [row] = await tx.query<ListenerRow>(REPLACE_LISTENER, valuesOf(content, by));
    return row!;
  }

  async bringBack(
    content: ListenerContent,
    origin: Origin,
    by: string,
    tx: Transaction,
  ): Promise<ListenerRow> {
    const [row] = await tx.query<ListenerRow>(BRING_BACK_LISTENER, [...valuesOf(content, by), origin]);
    return row!;
  }

  async delete(name: string, by: string, tx: Transaction): Promise<void> {
    await tx.execute(DELETE_LISTENER, [name, by]);
  }

  /** False: it does not exist, is in none of the states `from`, or at another revision. */
  async setState(name: string, state: ListenerState, change: StateChange, tx: Transaction): Promise<boolean> {
    const { reason, by, from, revision } = change;
    return (await tx.execute(SET_STATE, [name, state, reason, by, from, revision ?? null])) > 0;
  }

  /** False: it was changed meanwhile. */
  async reseal(
    row: ListenerRow,
    { sealed, definition }: Pick<ListenerContent, 'sealed' | 'definition'>,
    tx: Transaction,
  ): Promise<boolean> {
    const values = [row.name, sealed, row.sealed, JSON.stringify(definition)];
    return (await tx.execute(RESEAL_LISTENER, values)) > 0;
  }

  async forgetUrlsOfDeleted(): Promise<void> {
    await this.database.execute(FORGET_URLS);
  }
}

/** An invalid name is not queried: it may contain characters that PostgreSQL refuses. */
export function existingName(name: string): string {
  if (!isName(name)) throw noListener();
  return name;
}

export function noListener(): Problem {
  return new Problem('not-found', 'No listener has this name.');
}

function valuesOf({ name, definition, sealed, secretFrom }: ListenerContent, by: string): unknown[] {
  return [name, JSON.stringify(definition), definition.types, sealed, secretFrom, by];
}
