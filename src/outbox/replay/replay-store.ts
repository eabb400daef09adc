import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { Reads } from '../../database/reads.ts';
import type { Transaction } from '../../database/transaction.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import type { Step } from '../../lanes/paced-jobs.ts';
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
import type { FoundDelivery } from '../delivery-store.ts';
import {
  ADD_DELIVERY,
  COUNT_MATCHES,
  DROP_REST,
  FIND_SPAN,
  IN_FLIGHT,
  INSERT_REPLAY,
  INSERT_RESEND,
  LIST,
  LOCK_UNFINISHED,
  MARK_CANCELLED,
  MARK_DONE,
  MARK_PROGRESS,
  MATCH_DELIVERIES,
  NEXT_KEY,
  PART_END,
  PART_SELECTED,
  PROGRESS,
  REOPEN,
  TAKE_REPLAY,
  UNFINISHED,
} from './replay.sql.ts';

/** Max time between the start of a transaction and the insert of a delivery; far above what a transaction may take. */
const MAX_TRANSACTION_MS = 3_600_000;
/** Scanned while the caller waits: most replays are small, and then the response has the total. */
const DELIVERIES_AT_ONCE = 2_000;

/** Deliveries that are scanned to count those that a replay would send. */
const MAX_COUNTED = 10_000;

export interface ReplayFilter {
  readonly since: string;
  readonly until: string | undefined;
  /** Exact, or patterns with `*`. */
  readonly types: readonly string[] | undefined;
  readonly keys: readonly string[] | undefined;
  readonly onlyFailed: boolean;
}

/** The response to the operator. `selecting`: `matched` is the number so far, the rest is selected in the background. */
export interface StartedReplay {
  readonly id: number;
  readonly matched: number;
  readonly selecting: boolean;
}

/** A replay, locked for one step. */
interface LockedReplay {
  readonly id: number;
  readonly listener: number;
  readonly filter: ReplayFilter;
  /** Null when everything is selected. */
  readonly selectFrom: number | null;
  readonly selectTo: number;
}

export interface ReplayProgress {
  readonly id: number;
  /** The selection is not complete: `matched` still grows. */
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
  readonly filter: ReplayFilter;
  readonly listener: string | null;
  readonly cancelled_at: Date | null;
  readonly cancelled_by: string | null;
}

export interface StepLimits {
  /** Max deliveries scanned for those that match the filter. */
  readonly selected: number;
  /** Max deliveries reopened. */
  readonly deliveries: number;
  /** Max deliveries in flight. */
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
   * The deliveries that match now are sent; the set does not grow while the replay runs. Writing down a million deliveries
   * takes half a minute, so only the first ones are selected here, the rest by the steps.
   */
  create(
    { name, number }: Pick<Listener, 'name' | 'number'>,
    filter: ReplayFilter,
    by: string,
  ): Promise<StartedReplay> {
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const span = [number, filter.since, filter.until ?? null, MAX_TRANSACTION_MS];
      const [found] = await tx.query<{ low: number; high: number }>(FIND_SPAN, span);
      const { low, high } = found!;
      const values = [number, JSON.stringify(filter), by, low, high];
      const [row] = await tx.query<{ id: number }>(INSERT_REPLAY, values);
      const { id } = row!;
      const replay = { id, listener: number, filter, selectFrom: low, selectTo: high };
      const { matched, selecting } = await this.select(replay, DELIVERIES_AT_ONCE, tx);
      const count = selecting ? undefined : matched;
      await this.audit.record({ by, action: 'listener.replay', target: name, filter, count }, tx);
      return { id, matched, selecting };
    });
  }

  /** Sends one settled delivery again. Returns the id of the replay that does it. */
  resend(
    delivery: Pick<FoundDelivery, 'id' | 'listener' | 'listener_number' | 'lane' | 'order_key' | 'position'>,
    reason: string | undefined,
    by: string,
  ): Promise<number> {
    const { id, listener, listener_number, lane, order_key, position } = delivery;
    const filter = { delivery: id };
    return this.database.transaction(async (tx) => {
      const values = [listener_number, JSON.stringify(filter), by];
      const [row] = await tx.query<{ id: number }>(INSERT_RESEND, values);
      await tx.execute(ADD_DELIVERY, [row!.id, lane, order_key, position]);
      const target = listener ?? undefined;
      await this.audit.record({ by, action: 'listener.resend', target, filter, count: 1, reason }, tx);
      return row!.id;
    });
  }

  /** Selects the next part of the span. */
  private async select(
    { id, listener, filter, selectFrom, selectTo }: LockedReplay,
    deliveries: number,
    tx: Transaction,
  ): Promise<Omit<StartedReplay, 'id'>> {
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

  list(listener: number | undefined, beforeId: number | undefined, limit: number): Promise<ReplayProgress[]> {
    return this.reads.query(LIST, [limit, beforeId ?? null, listener ?? null]);
  }

  /** False: the listener has no such replay, or it is done. */
  cancel(id: number, { name, number }: Pick<Listener, 'name' | 'number'>, by: string): Promise<boolean> {
    return this.database.transaction(async (tx) => {
      const [locked] = await tx.query(LOCK_UNFINISHED, [id, number]);
      if (!locked) return false;
      const count = await tx.execute(DROP_REST, [id]);
      await tx.execute(MARK_CANCELLED, [id, by, count]);
      const target = `${name}: replay ${id}`;
      await this.audit.record({ by, action: 'listener.cancel-replay', target, count }, tx);
      return true;
    });
  }

  /** How many deliveries a replay would send. `more`: at least as many; counting all would take too long. */
  count(listener: number, filter: ReplayFilter): Promise<{ matched: number; more: boolean }> {
    const { since, until = null, types, keys = null, onlyFailed } = filter;
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const span = [listener, since, until, MAX_TRANSACTION_MS];
      const [found] = await tx.query<{ low: number; high: number }>(FIND_SPAN, span);
      const { low, high } = found!;
      const [part] = await tx.query<{ part_end: number }>(PART_END, [listener, low, high, MAX_COUNTED]);
      const { part_end: end } = part!;
      const likes = types?.map(likeOf) ?? null;
      const values = [listener, since, until, likes, keys, onlyFailed, low, end, MAX_COUNTED];
      const [row] = await tx.query<{ matched: number }>(COUNT_MATCHES, values);
      return { matched: row!.matched, more: end < high };
    });
  }

  async unfinished(): Promise<number[]> {
    const rows = await this.database.query<{ id: number }>(UNFINISHED);
    return rows.map(({ id }) => id);
  }

  /**
   * One step of a replay; undefined: another replica works on it. A key that is partly reopened is completed, whatever is in
   * flight. Nothing is reopened before everything is selected: live deliveries of a key could overtake those that are
   * selected later.
   */
  step(replay: number, limits: StepLimits): Promise<Step | undefined> {
    const { deliveries: maxDeliveries, inFlight: maxInFlight } = limits;
    return this.database.transaction(async (tx) => {
      const [locked] = await tx.query<LockedReplay>(TAKE_REPLAY, [replay]);
      if (!locked) return undefined;
      if (locked.selectFrom !== null) {
        void tx.query(FORCE_INDEX_PLANS);
        await this.select(locked, limits.selected, tx);
        return { kind: 'selected' };
      }
      const [next] = await tx.query<LaneRef & { key: string }>(NEXT_KEY, [replay]);
      if (!next) {
        await tx.execute(MARK_DONE, [replay]);
        return { kind: 'done' };
      }
      const [[count], partlyReopened] = await Promise.all([
        tx.query<{ waiting: number }>(IN_FLIGHT, [replay, maxInFlight]),
        isPartlyRequeued(tx, next, next.key, requeuerOf(replay)),
      ]);
      if (count!.waiting >= maxInFlight && !partlyReopened) return { kind: 'full' };
      return this.reopen(replay, next, maxDeliveries, tx);
    });
  }

  private async reopen(
    replay: number,
    laneRef: LaneRef,
    maxDeliveries: number,
    tx: Transaction,
  ): Promise<Step> {
    const { stage, lane } = laneRef;
    await Promise.all([tx.query(FORCE_INDEX_PLANS), lockLane(tx, laneRef)]);
    // A separate statement, with a snapshot of its own, sees what the lane's owner wrote last.
    const keys = await tx.query<ChangedKey>(REOPEN, [replay, lane, maxDeliveries]);
    await holdRequeuedKeys(tx, laneRef, keys, requeuerOf(replay));
    await tx.execute(MARK_PROGRESS, [replay]);
    return { kind: 'changed', queue: stage, lane, rows: keys.reduce((sum, { changed }) => sum + changed, 0) };
  }
}

/** A dead letter does not block its key: it is what is sent again. */
function requeuerOf(replay: number): Requeuer {
  return { name: `replay ${replay}`, note: `replay ${replay}`, passesDeadLetters: true };
}
