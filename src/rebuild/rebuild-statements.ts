import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import type { Diff } from './diff-tables.ts';
import type { Failure, Rebuild, RebuildOptions, Status } from './rebuild.ts';
import {
  AT_WORK,
  COMPARED,
  CREATE,
  CREATE_LANES,
  END,
  FAILURE_OF,
  FOLLOW,
  FORGET_RATE,
  GAP,
  LOCK_HISTORY_CHANGES,
  LOCK_OPEN,
  MOVE_ON,
  REMOVE_LANES,
  RETRY_LANES,
  SAMPLE,
  SET_PAUSED,
  SKIP,
  STAY_ON_SWITCHED,
  TRY_AGAIN,
  VIEW,
  WAITING,
  WAITS,
  WAITS_NO_LONGER,
} from './rebuild-statements.sql.ts';

/** A message that failed and was left out. */
export interface LeftOut {
  readonly id: string;
  readonly source: string;
  readonly error: string;
  /** Of the operator who left it out. */
  readonly reason: string | null;
  readonly by: string;
  readonly at: string;
}

export interface RebuildRow extends Rebuild {
  readonly total: number | null;
  readonly done: number | null;
  readonly left_out: number;
  readonly left_out_messages: readonly LeftOut[];
  /** Messages in the last minute, or since it began, and how long that was. Null: not at work. */
  readonly recent_done: number | null;
  readonly recent_seconds: number | null;
  /** Whether replicas have its migrations; and of these, some run its version. */
  readonly has_migrations: boolean;
  readonly has_version: boolean;
  readonly waits_for: string | null;
  readonly diff: Diff | null;
  readonly failure: Partial<Failure> | null;
  readonly created_at: Date;
  readonly created_by: string;
  readonly switched_at: Date | null;
  readonly pause_ms: number | null;
  readonly ended_at: Date | null;
}

export interface NewRebuild {
  readonly model: string;
  readonly target: string;
  readonly options: RebuildOptions;
  readonly migrations: readonly string[];
  readonly version: string;
  readonly by: string;
}

/** The table of rebuilds. */
@Injectable()
export class RebuildStatements {
  constructor(private readonly database: Database) {}

  atWork(): Promise<Rebuild[]> {
    return this.database.query(AT_WORK);
  }

  view(model: string | undefined): Promise<RebuildRow[]> {
    return this.database.query(VIEW, [model ?? null]);
  }

  /** Notes how far those at work are, for their rate. */
  async sample(): Promise<void> {
    await this.database.execute(SAMPLE, []);
  }

  /** Undefined: all messages of these types are in history or in the inbox. */
  async incompleteBefore(types: readonly string[], tx: Transaction): Promise<Date | undefined> {
    const [row] = await tx.query<{ to: Date | null }>(GAP, [types]);
    return row?.to ?? undefined;
  }

  /** Waits for what removes or adds finished messages, and keeps it out until the transaction ends. */
  async lockHistoryChanges(tx: Transaction): Promise<void> {
    await tx.query(LOCK_HISTORY_CHANGES);
  }

  /** Undefined: one of the model is open. */
  async create(
    tx: Transaction,
    { model, target, options, migrations, version, by }: NewRebuild,
  ): Promise<number | undefined> {
    const values = [model, target, JSON.stringify(options), migrations, by, version];
    const [row] = await tx.query<{ id: number }>(CREATE(model), values);
    if (row) await tx.execute(CREATE_LANES, [row.id]);
    return row?.id;
  }

  async lockOpen(model: string, tx: Transaction): Promise<Rebuild | undefined> {
    const [row] = await tx.query<Rebuild>(LOCK_OPEN, [model]);
    return row;
  }

  async failureOf(id: number, tx: Transaction): Promise<Failure | undefined> {
    const [row] = await tx.query<{ failure: Failure }>(FAILURE_OF, [id]);
    return row?.failure;
  }

  async skip(
    id: number,
    { position, source, id: message, error }: Failure,
    by: string,
    reason: string,
    tx: Transaction,
  ): Promise<void> {
    await tx.execute(SKIP, [id, position, source, message, error, by, reason]);
  }

  async setPaused(id: number, paused: boolean, tx: Transaction): Promise<void> {
    await tx.execute(SET_PAUSED, [id, paused]);
    if (!paused) await tx.execute(FORGET_RATE, [id]);
  }

  /** After it stopped: the message that failed, or what failed before the replay, is tried again. */
  async tryAgain(id: number, tx: Transaction): Promise<void> {
    await tx.execute(RETRY_LANES, [id]);
    await tx.execute(TRY_AGAIN, [id]);
  }

  /** Follows the living schema again, then switches. */
  async follow(id: number, direction: Rebuild['direction'], version: string, tx: Transaction): Promise<void> {
    await tx.execute(FOLLOW, [id, direction, version]);
  }

  async stayOnSwitched(id: number, tx: Transaction): Promise<void> {
    await tx.execute(STAY_ON_SWITCHED, [id]);
  }

  /** Drops the schema that is not the living one. */
  async end({ id, target }: Rebuild, status: Status, tx: Transaction): Promise<void> {
    await tx.execute(REMOVE_LANES, [id]);
    await tx.execute(END, [id, status]);
    await tx.execute(`DROP SCHEMA IF EXISTS ${target} CASCADE`);
  }

  async moveOn(id: number, from: Status, to: Status): Promise<boolean> {
    return (await this.database.execute(MOVE_ON, [id, from, to])) > 0;
  }

  /** Why it does not continue. */
  async waits(id: number, reason: string): Promise<void> {
    await this.database.execute(WAITS, [id, reason]);
  }

  async waitsNoLonger(id: number, reason: string): Promise<void> {
    await this.database.execute(WAITS_NO_LONGER, [id, reason]);
  }

  async compared(id: number, diff: Diff, to: Status): Promise<void> {
    await this.database.execute(COMPARED, [id, JSON.stringify(diff), to]);
  }

  /** Live messages that wait, up to the max. */
  async waiting(max: number): Promise<number> {
    const [row] = await this.database.query<{ waiting: number }>(WAITING, [max]);
    return row!.waiting;
  }
}
