import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { Reads } from '../../database/reads.ts';
import { STRAIGHT_PLANS } from '../../database/straight-plans.ts';
import type { Transaction } from '../../database/transaction.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import {
  type ChangedKey,
  isHalfWay,
  type Keeper,
  lockLane,
  type Place,
  putBehindHolds,
} from '../../lanes/kept-holds.ts';
import type { Listener } from '../../listeners/listener.ts';
import { likeOf } from '../../listeners/type-patterns.ts';
import {
  FIND_SPAN,
  IN_FLIGHT,
  INSERT_REPLAY,
  MARK_DONE,
  MATCH_DELIVERIES,
  NEXT_KEY,
  PROGRESS,
  REOPEN,
  SET_MATCHED,
  TAKE_REPLAY,
  UNFINISHED,
} from './replay.sql.ts';

/** Between the beginning of a transaction and the position of a delivery that it writes; far above what one may take. */
const LONGEST_TRANSACTION_MS = 3_600_000;
/** Looked through with one statement: far from the statement timeout also where all of them match, on a busy machine (2 s). */
const POSITIONS_PER_PART = 50_000;

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
      void tx.query(STRAIGHT_PLANS);
      const [row] = await tx.query<{ id: number }>(INSERT_REPLAY, [number, JSON.stringify(filter), by]);
      const matched = await this.match(row!.id, number, filter, tx);
      await tx.execute(SET_MATCHED, [row!.id, matched]);
      await this.audit.record({ by, action: 'listener.replay', target: name, filter, count: matched }, tx);
      return { id: row!.id, matched };
    });
  }

  private async match(replay: number, listener: number, filter: ReplayFilter, tx: Transaction) {
    const { since, until = null, types, keys = null, onlyFailed } = filter;
    const span = [listener, since, until, LONGEST_TRANSACTION_MS];
    const [found] = await tx.query<{ low: number; high: number }>(FIND_SPAN, span);
    const { low, high } = found!;
    const values = [replay, listener, since, until, types?.map(likeOf) ?? null, keys, onlyFailed];
    let matched = 0;
    for (let from = low; from < high; from += POSITIONS_PER_PART) {
      const part = [...values, from, Math.min(from + POSITIONS_PER_PART, high)];
      matched += await tx.execute(MATCH_DELIVERIES, part);
    }
    return matched;
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
      const [next] = await tx.query<Place & { key: string }>(NEXT_KEY, [replay]);
      if (!next) {
        await tx.execute(MARK_DONE, [replay]);
        return { kind: 'done' };
      }
      const [[count], halfWay] = await Promise.all([
        tx.query<{ waiting: number }>(IN_FLIGHT, [replay, mostInFlight]),
        isHalfWay(tx, next, next.key, keeperOf(replay)),
      ]);
      if (count!.waiting >= mostInFlight && !halfWay) return { kind: 'full' };
      return this.reopen(replay, next, mostDeliveries, tx);
    });
  }

  private async reopen(replay: number, place: Place, mostDeliveries: number, tx: Transaction): Promise<Step> {
    const { lane } = place;
    await Promise.all([tx.query(STRAIGHT_PLANS), lockLane(tx, place)]);
    // Another statement, with a snapshot of its own: what the lane's holder wrote last is seen.
    const keys = await tx.query<ChangedKey>(REOPEN, [replay, lane, mostDeliveries]);
    await putBehindHolds(tx, place, keys, keeperOf(replay));
    return { kind: 'reopened', lane, deliveries: keys.reduce((sum, { changed }) => sum + changed, 0) };
  }
}

/** A dead letter is passed: it is what is sent again. */
function keeperOf(replay: number): Keeper {
  return { name: `replay ${replay}`, note: `replay ${replay}`, passesDeadLetters: true };
}
