import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { Reads } from '../../database/reads.ts';
import type { Transaction } from '../../database/transaction.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import {
  type ChangedKey,
  holdRequeuedKeys,
  isPartlyRequeued,
  type LaneRef,
  lockLane,
  type Requeuer,
} from '../../lanes/requeue-holds.ts';
import type { Listener } from '../../listeners/listener.ts';
import { likeOf } from '../../listeners/type-patterns.ts';
import {
  FIND_SPAN,
  IN_FLIGHT,
  INSERT_REPLAY,
  MARK_DONE,
  MATCH_DELIVERIES,
  NEXT_KEY,
  PART_END,
  PART_SELECTED,
  PROGRESS,
  REOPEN,
  TAKE_REPLAY,
  UNFINISHED,
} from './replay.sql.ts';

/** Between the beginning of a transaction and the position of a delivery that it writes; far above what one may take. */
const MAX_TRANSACTION_MS = 3_600_000;
/** Looked through while the caller waits: most replays are small, and then it is known at once how many match. */
const DELIVERIES_AT_ONCE = 2_000;

export interface ReplayFilter {
  readonly since: string;
  readonly until: string | undefined;
  /** Exact, or patterns with `*`. */
  readonly types: readonly string[] | undefined;
  readonly keys: readonly string[] | undefined;
  readonly onlyFailed: boolean;
}

/** What the operator is told at once. `selecting`: so far; the rest is looked through in the background. */
export interface Begun {
  readonly id: number;
  readonly matched: number;
  readonly selecting: boolean;
}

/** A replay as it is taken for a step. */
interface Taken {
  readonly id: number;
  readonly listener: number;
  readonly filter: ReplayFilter;
  /** Null: everything is selected. */
  readonly selectFrom: number | null;
  readonly selectTo: number;
}

export interface ReplayProgress {
  readonly id: number;
  /** Still being selected: `matched` grows. */
  readonly selecting: boolean;
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

/** What a step did: selected a part, reopened deliveries of a lane, had to wait because enough is on its way, or found nothing left. */
export type Step =
  | { readonly kind: 'selected' }
  | { readonly kind: 'reopened'; readonly lane: number; readonly deliveries: number }
  | { readonly kind: 'full' | 'done' };

export interface StepLimits {
  /** Most deliveries looked through for what the filter means. */
  readonly selected: number;
  /** Most deliveries reopened. */
  readonly deliveries: number;
  /** Most deliveries on their way. */
  readonly inFlight: number;
}

@Injectable()
export class ReplayStore {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
    private readonly audit: AuditLog,
  ) {}

  /**
   * What the filter means now is what is sent; it does not grow while the replay runs. A million deliveries take half a
   * minute to write down, so only the first of them are here, the rest with the steps.
   */
  create(
    { name, number }: Pick<Listener, 'name' | 'number'>,
    filter: ReplayFilter,
    by: string,
  ): Promise<Begun> {
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const span = [number, filter.since, filter.until ?? null, MAX_TRANSACTION_MS];
      const [found] = await tx.query<{ low: number; high: number }>(FIND_SPAN, span);
      const { low, high } = found!;
      const values = [number, JSON.stringify(filter), by, low, high];
      const [row] = await tx.query<{ id: number }>(INSERT_REPLAY, values);
      const { id } = row!;
      const taken = { id, listener: number, filter, selectFrom: low, selectTo: high };
      const { matched, selecting } = await this.select(taken, DELIVERIES_AT_ONCE, tx);
      const count = selecting ? undefined : matched;
      await this.audit.record({ by, action: 'listener.replay', target: name, filter, count }, tx);
      return { id, matched, selecting };
    });
  }

  /** The next part of the span. */
  private async select(
    { id, listener, filter, selectFrom, selectTo }: Taken,
    deliveries: number,
    tx: Transaction,
  ): Promise<Omit<Begun, 'id'>> {
    const { since, until = null, types, keys = null, onlyFailed } = filter;
    const [part] = await tx.query<{ part_end: number }>(PART_END, [
      listener,
      selectFrom,
      selectTo,
      deliveries,
    ]);
    const { part_end: partEnd } = part!;
    const likes = types?.map(likeOf) ?? null;
    const values = [id, listener, since, until, likes, keys, onlyFailed, selectFrom, partEnd];
    const found = await tx.execute(MATCH_DELIVERIES, values);
    const selecting = partEnd < selectTo;
    const [row] = await tx.query<{ matched: number }>(PART_SELECTED, [id, found, selecting ? partEnd : null]);
    return { matched: row!.matched, selecting };
  }

  async progress(id: number, listener: number): Promise<ReplayProgress | undefined> {
    const [row] = await this.reads.query<ReplayProgress>(PROGRESS, [id, listener]);
    return row;
  }

  async unfinished(): Promise<number[]> {
    const rows = await this.database.query<{ id: number }>(UNFINISHED);
    return rows.map(({ id }) => id);
  }

  /**
   * One step of a replay; undefined: another replica is at it. A key that is half way is not on its way: it is gone on with.
   * Nothing is reopened before everything is selected: live ones of a key could pass those that are selected later.
   */
  step(replay: number, limits: StepLimits): Promise<Step | undefined> {
    const { deliveries: maxDeliveries, inFlight: maxInFlight } = limits;
    return this.database.transaction(async (tx) => {
      const [taken] = await tx.query<Taken>(TAKE_REPLAY, [replay]);
      if (!taken) return undefined;
      if (taken.selectFrom !== null) {
        void tx.query(FORCE_INDEX_PLANS);
        await this.select(taken, limits.selected, tx);
        return { kind: 'selected' };
      }
      const [next] = await tx.query<LaneRef & { key: string }>(NEXT_KEY, [replay]);
      if (!next) {
        await tx.execute(MARK_DONE, [replay]);
        return { kind: 'done' };
      }
      const [[count], halfWay] = await Promise.all([
        tx.query<{ waiting: number }>(IN_FLIGHT, [replay, maxInFlight]),
        isPartlyRequeued(tx, next, next.key, keeperOf(replay)),
      ]);
      if (count!.waiting >= maxInFlight && !halfWay) return { kind: 'full' };
      return this.reopen(replay, next, maxDeliveries, tx);
    });
  }

  private async reopen(
    replay: number,
    place: LaneRef,
    maxDeliveries: number,
    tx: Transaction,
  ): Promise<Step> {
    const { lane } = place;
    await Promise.all([tx.query(FORCE_INDEX_PLANS), lockLane(tx, place)]);
    // Another statement, with a snapshot of its own: what the lane's holder wrote last is seen.
    const keys = await tx.query<ChangedKey>(REOPEN, [replay, lane, maxDeliveries]);
    await holdRequeuedKeys(tx, place, keys, keeperOf(replay));
    return { kind: 'reopened', lane, deliveries: keys.reduce((sum, { changed }) => sum + changed, 0) };
  }
}

/** A dead letter is passed: it is what is sent again. */
function keeperOf(replay: number): Requeuer {
  return { name: `replay ${replay}`, note: `replay ${replay}`, passesDeadLetters: true };
}
