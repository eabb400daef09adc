import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { Reads } from '../../database/reads.ts';
import { STRAIGHT_PLANS } from '../../database/straight-plans.ts';
import type { Transaction } from '../../database/transaction.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import type { Listener } from '../../listeners/listener.ts';
import { likeOf } from '../../listeners/type-patterns.ts';
import {
  IN_FLIGHT,
  INSERT_REPLAY,
  KEEP_HOLD,
  LET_GO,
  LOCK_LANE,
  MARK_DONE,
  MATCH_DELIVERIES,
  NEXT_LANE,
  PROGRESS,
  REOPEN,
  SET_DUE,
  SET_MATCHED,
  TAKE_REPLAY,
  UNFINISHED,
} from './replay.sql.ts';

export interface ReplayFilter {
  readonly since: string;
  readonly until: string | undefined;
  /** Exact, or patterns with `*`. */
  readonly types: readonly string[] | undefined;
  readonly keys: readonly string[] | undefined;
  readonly onlyFailed: boolean;
}

export interface ReplayProgress {
  readonly id: number;
  readonly matched: number;
  /** Not reopened yet. */
  readonly closed: number;
  /** Reopened, and not settled again. */
  readonly waiting: number;
  readonly dead: number;
  readonly created_at: Date;
  readonly created_by: string;
  readonly done_at: Date | null;
  readonly filter: unknown;
}

/** What a step did: reopened deliveries of a lane, had to wait because enough is on its way, or found nothing left. */
export type Step =
  | { readonly kind: 'reopened'; readonly lane: number; readonly deliveries: number }
  | { readonly kind: 'full' | 'done' };

interface ReopenedKey {
  readonly key: string;
  readonly reopened: number;
  /** Some of it is left. */
  readonly begun: boolean;
}

@Injectable()
export class ReplayStore {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
    private readonly audit: AuditLog,
  ) {}

  /** What the filter means now is written down; it does not grow while the replay runs. */
  create(
    { name, number }: Pick<Listener, 'name' | 'number'>,
    filter: ReplayFilter,
    by: string,
  ): Promise<{ id: number; matched: number }> {
    return this.database.transaction(async (tx) => {
      const [row] = await tx.query<{ id: number }>(INSERT_REPLAY, [number, JSON.stringify(filter), by]);
      const { since, until, types, keys, onlyFailed } = filter;
      const likes = types?.map(likeOf) ?? null;
      const values = [row!.id, number, since, until ?? null, likes, keys ?? null, onlyFailed];
      const matched = await tx.execute(MATCH_DELIVERIES, values);
      await tx.execute(SET_MATCHED, [row!.id, matched]);
      await this.audit.record({ by, action: 'listener.replay', target: name, filter, count: matched }, tx);
      return { id: row!.id, matched };
    });
  }

  async progress(id: number, listener: number): Promise<ReplayProgress | undefined> {
    const [row] = await this.reads.query<ReplayProgress>(PROGRESS, [id, listener]);
    return row;
  }

  async unfinished(): Promise<number[]> {
    const rows = await this.database.query<{ id: number }>(UNFINISHED);
    return rows.map(({ id }) => id);
  }

  /** One step of a replay; undefined: another replica is at it. A key that is half way is not on its way: it is gone on with. */
  step(replay: number, mostDeliveries: number, mostInFlight: number): Promise<Step | undefined> {
    return this.database.transaction(async (tx) => {
      const taken = await tx.query(TAKE_REPLAY, [replay]);
      if (taken.length === 0) return undefined;
      const [next] = await tx.query<{ lane: number; begun: boolean }>(NEXT_LANE, [replay, nameOf(replay)]);
      if (!next) {
        await tx.execute(MARK_DONE, [replay]);
        return { kind: 'done' };
      }
      const [count] = await tx.query<{ waiting: number }>(IN_FLIGHT, [replay, mostInFlight]);
      if (count!.waiting >= mostInFlight && !next.begun) return { kind: 'full' };
      return this.reopen(replay, next.lane, mostDeliveries, tx);
    });
  }

  private async reopen(replay: number, lane: number, mostDeliveries: number, tx: Transaction): Promise<Step> {
    await Promise.all([tx.query(STRAIGHT_PLANS), tx.query(LOCK_LANE, [lane])]);
    // Another statement, with a snapshot of its own: what the lane's holder wrote last is seen.
    const keys = await tx.query<ReopenedKey>(REOPEN, [replay, lane, mostDeliveries]);
    const by = nameOf(replay);
    const half = keys.find(({ begun }) => begun);
    const whole = keys.filter(({ begun }) => !begun);
    const due = whole.filter(({ reopened }) => reopened > 0);
    await Promise.all([
      half && tx.execute(KEEP_HOLD, [lane, half.key, by]),
      // Before they are let go: after, it would end the hold of one that died meanwhile.
      tx.execute(SET_DUE, [lane, due.map(({ key }) => key), by]),
      tx.execute(LET_GO, [lane, whole.map(({ key }) => key), by]),
    ]);
    return { kind: 'reopened', lane, deliveries: keys.reduce((sum, { reopened }) => sum + reopened, 0) };
  }
}

/** As the keeper of a hold. */
function nameOf(replay: number): string {
  return `replay ${replay}`;
}
