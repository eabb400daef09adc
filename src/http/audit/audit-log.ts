import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { Reads } from '../../database/reads.ts';
import type { Transaction } from '../../database/transaction.ts';
import { withinBytes } from '../page-bytes.ts';

/** audit.record — $1 by, $2 action, $3 target, $4 filter, $5 count, $6 reason */
export const RECORD = `
  INSERT INTO audit (by, action, target, filter, count, reason) VALUES ($1, $2, $3, $4, $5, $6)`;

/** audit.list — newest first. $1 limit, $2 before id, $3 since, $4 action as a LIKE pattern; each may be null */
export const LIST = `${withinBytes(
  `SELECT id, at, by, action, target, filter, count, reason FROM audit
  WHERE ($2::bigint IS NULL OR id < $2) AND ($3::timestamptz IS NULL OR at >= $3)
    AND ($4::text IS NULL OR action LIKE $4)
  ORDER BY id DESC LIMIT $1`,
  'id DESC',
)} ORDER BY id DESC`;

/** audit.remove — the oldest entries that are past their retention. $1 age in ms, $2 max rows */
export const REMOVE = `
  DELETE FROM audit WHERE id IN (
    SELECT id FROM audit WHERE at < now() - $1::bigint * interval '1 millisecond' ORDER BY at LIMIT $2)`;

/** All actions of operators that are recorded. */
export const ACTIONS = [
  'dead-letters.revive',
  'dead-letters.discard',
  'dead-letters.cancel',
  'hold.put',
  'hold.end',
  'listener.put',
  'listener.delete',
  'listener.pause',
  'listener.resume',
  'listener.rotate-secret',
  'listener.replay',
  'listener.resend',
  'listener.cancel-replay',
  'listener.test',
  'api-key.create',
  'api-key.revoke',
  'schedule.put',
  'schedule.delete',
  'schedule.pause',
  'schedule.resume',
  'schedule.run',
  'topic.put',
  'topic.delete',
  'group.put',
  'group.delete',
  'group.seek',
  'read-model.rebuild',
  'read-model.pause',
  'read-model.resume',
  'read-model.cancel',
  'read-model.skip',
  'read-model.switch',
  'read-model.rollback',
  'read-model.drop',
  'history.import',
  'source.discard',
  'source.delete',
  'history.erase',
  'cell.move',
] as const;
export type Action = (typeof ACTIONS)[number];

export interface AuditEntry {
  /** The name of the api key, or LISTENERS_FILE. */
  readonly by: string;
  readonly action: Action;
  readonly target?: string | undefined;
  /** The filter, for an action on many items. */
  readonly filter?: unknown;
  readonly count?: number | undefined;
  readonly reason?: string | undefined;
}

export interface AuditRow {
  readonly id: number;
  readonly at: Date;
  readonly by: string;
  readonly action: Action;
  readonly target: string | null;
  readonly filter: unknown;
  readonly count: number | null;
  readonly reason: string | null;
}

/** Records who did what, when, to how many items, and why. */
@Injectable()
export class AuditLog {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
  ) {}

  /** Runs in the transaction of the recorded action: both are committed or neither. */
  async record(
    { by, action, target, filter, count, reason }: AuditEntry,
    tx: Pick<Transaction, 'execute'>,
  ): Promise<void> {
    const filterJson = filter === undefined ? null : JSON.stringify(filter);
    await tx.execute(RECORD, [by, action, target ?? null, filterJson, count ?? null, reason ?? null]);
  }

  /** `action` may end with `*`. */
  list(
    { since, action }: { since: string | undefined; action: string | undefined },
    beforeId: number | undefined,
    limit: number,
  ): Promise<AuditRow[]> {
    return this.reads.query(LIST, [
      limit,
      beforeId ?? null,
      since ?? null,
      action?.replace('*', '%') ?? null,
    ]);
  }

  remove(olderThanMs: number, maxRows: number): Promise<number> {
    return this.database.execute(REMOVE, [olderThanMs, maxRows]);
  }
}
