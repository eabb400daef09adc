import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { Reads } from '../../database/reads.ts';
import type { Transaction } from '../../database/transaction.ts';
import { type Action, AuditLog } from '../../http/audit/audit-log.ts';
import type { Cron } from './cron.ts';
import type { OnMissed } from './due-ticks.ts';
import {
  ADVANCE,
  DELETE_SCHEDULE,
  FIND_SCHEDULE,
  LIST_SCHEDULES,
  LOCK_SCHEDULE,
  NOW,
  PUT_SCHEDULE,
  SET_PAUSED,
  TAKE_DUE,
  UNTIL_NEXT,
} from './schedules.sql.ts';

export interface ScheduleRow {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  readonly type: string;
  /** JSON text. */
  readonly payload: string;
  /** Null: each message has its own key. */
  readonly key: string | null;
  readonly on_missed: OnMissed;
  readonly paused: boolean;
  readonly next_at: Date;
  readonly last_at: Date | null;
  readonly created_at: Date;
  readonly created_by: string;
  readonly updated_at: Date;
  readonly updated_by: string;
}

export type ScheduleDefinition = Pick<
  ScheduleRow,
  'name' | 'cron' | 'timezone' | 'type' | 'payload' | 'key' | 'on_missed'
>;

@Injectable()
export class ScheduleStore {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
    private readonly audit: AuditLog,
  ) {}

  /** A due tick is not lost if a schedule is replaced by one with the same times. */
  put(
    definition: ScheduleDefinition,
    cron: Cron,
    by: string,
  ): Promise<{ row: ScheduleRow; created: boolean }> {
    const { name, timezone, type, payload, key, on_missed } = definition;
    return this.database.transaction(async (tx) => {
      const [before] = await tx.query<ScheduleRow>(LOCK_SCHEDULE, [name]);
      const sameTimes = before?.cron === definition.cron && before.timezone === timezone;
      const nextAt = sameTimes ? before.next_at : cron.after(await now(tx));
      const values = [name, definition.cron, timezone, type, payload, key, on_missed, nextAt, by];
      const [row] = await tx.query<ScheduleRow>(PUT_SCHEDULE, values);
      await this.record('schedule.put', name, by, tx, { cron: definition.cron, timezone, type });
      return { row: row!, created: before === undefined };
    });
  }

  /** Undefined if it does not exist. Ticks while it was paused do not count as missed. */
  setPaused(
    name: string,
    paused: boolean,
    next: (row: ScheduleRow, now: Date) => Date,
    by: string,
  ): Promise<ScheduleRow | undefined> {
    return this.database.transaction(async (tx) => {
      const [before] = await tx.query<ScheduleRow>(LOCK_SCHEDULE, [name]);
      if (!before || before.paused === paused) return before;
      const nextAt = paused ? before.next_at : next(before, await now(tx));
      const [row] = await tx.query<ScheduleRow>(SET_PAUSED, [name, paused, nextAt, by]);
      await this.record(paused ? 'schedule.pause' : 'schedule.resume', name, by, tx);
      return row;
    });
  }

  /** To post its message in this transaction, apart from its ticks. */
  async takeForRun(
    name: string,
    by: string,
    tx: Transaction,
  ): Promise<(ScheduleRow & { now: Date }) | undefined> {
    const [row] = await tx.query<ScheduleRow>(LOCK_SCHEDULE, [name]);
    if (!row) return undefined;
    await this.record('schedule.run', name, by, tx);
    return { ...row, now: await now(tx) };
  }

  delete(name: string, by: string): Promise<boolean> {
    return this.database.transaction(async (tx) => {
      const deleted = (await tx.execute(DELETE_SCHEDULE, [name])) > 0;
      if (deleted) await this.record('schedule.delete', name, by, tx);
      return deleted;
    });
  }

  async find(name: string): Promise<ScheduleRow | undefined> {
    const [row] = await this.reads.query<ScheduleRow>(FIND_SCHEDULE, [name]);
    return row;
  }

  list(after: string | undefined, limit: number): Promise<ScheduleRow[]> {
    return this.reads.query(LIST_SCHEDULES, [after ?? '', limit]);
  }

  takeDue(max: number, except: readonly string[], tx: Transaction): Promise<(ScheduleRow & { now: Date })[]> {
    return tx.query(TAKE_DUE, [max, except]);
  }

  async advance(name: string, nextAt: Date, lastAt: Date | undefined, tx: Transaction): Promise<void> {
    await tx.execute(ADVANCE, [name, nextAt, lastAt ?? null]);
  }

  async untilNextMs(except: readonly string[]): Promise<number | undefined> {
    const [row] = await this.database.query<{ ms: number }>(UNTIL_NEXT, [except]);
    return row?.ms;
  }

  private async record(action: Action, target: string, by: string, tx: Transaction, filter?: unknown) {
    await this.audit.record({ by, action, target, filter }, tx);
  }
}

async function now(tx: Transaction): Promise<Date> {
  const [row] = await tx.query<{ now: Date }>(NOW);
  return row!.now;
}
