import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { Reads } from '../../database/reads.ts';
import type { Transaction } from '../../database/transaction.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import {
  type ChangedKey,
  completedKeys,
  endDeadLetterHolds,
  holdRequeuedKeys,
  isPartlyRequeued,
  type LaneRef,
  lockLane,
  type Requeuer,
} from '../../lanes/requeue-holds.ts';
import type { ActionKind, ActionProgress, ActionRequest, Step } from './dead-letter-action.ts';
import {
  ADD_ITEM,
  applyAction,
  INSERT_ACTION,
  LOCK_ACTION,
  MARK_DONE,
  matchDeadLetters,
  NEXT_KEYS,
  PROGRESS,
  SET_MATCHED,
  UNFINISHED,
} from './dead-letter-actions.sql.ts';
import { deadLettersOf, stagesOf } from './dead-letter-conditions.ts';
import type { DeadLetterFilter } from './dead-letter-filter.ts';
import type { DeadLetterRow } from './dead-letters-store.ts';

/** The first key of a queue with remaining items. */
interface Head extends LaneRef {
  readonly key: string;
  /** Items of this action in flight in that queue. */
  readonly inFlight: number;
}

/** Rolls back an action on an item that is no longer a dead letter. */
export class NotDead extends Error {}

@Injectable()
export class DeadLetterActionStore {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
    private readonly audit: AuditLog,
  ) {}

  /** Stores the dead letters that match the filter now; later ones do not join the running action. */
  create(filter: DeadLetterFilter, request: ActionRequest): Promise<{ id: number; matched: number }> {
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const id = await this.insert(filter, request, tx);
      let matched = 0;
      for (const stage of stagesOf(filter)) {
        const values: unknown[] = [id];
        matched += await tx.execute(matchDeadLetters(stage, deadLettersOf(stage, filter, values)), values);
      }
      await this.record(id, { filter, count: matched }, request, tx);
      return { id, matched };
    });
  }

  /** Applies an action to a single dead letter at once. Throws NotDead. */
  applyToOne({ stage, id, lane, order_key, position }: DeadLetterRow, request: ActionRequest): Promise<void> {
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const action = await this.insert({ id }, request, tx);
      await tx.execute(ADD_ITEM, [action, stage, lane, order_key, position]);
      await this.record(action, { target: id, count: 1 }, request, tx);
      const changed = await this.apply(tx, action, request.kind, { stage, lane }, 1);
      if (changed === 0) throw new NotDead();
      await tx.execute(MARK_DONE, [action]);
    });
  }

  async progress(id: number): Promise<ActionProgress | undefined> {
    const [row] = await this.reads.query<ActionProgress>(PROGRESS, [id]);
    return row;
  }

  async unfinished(): Promise<number[]> {
    const rows = await this.database.query<{ id: number }>(UNFINISHED);
    return rows.map(({ id }) => id);
  }

  /** Runs one step in the first queue below its limit in flight; undefined if another replica is at work on the action. */
  step(action: number, maxItems: number, maxInFlight: number): Promise<Step | undefined> {
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const [locked] = await tx.query<{ kind: ActionKind }>(LOCK_ACTION, [action]);
      if (!locked) return undefined;
      const heads = await tx.query<Head>(NEXT_KEYS, [action, maxInFlight]);
      if (heads.length === 0) {
        await tx.execute(MARK_DONE, [action]);
        return { kind: 'done' };
      }
      const head = await firstBelowLimit(tx, action, heads, maxInFlight);
      if (!head) return { kind: 'full' };
      const { stage, lane } = head;
      const changed = await this.apply(tx, action, locked.kind, { stage, lane }, maxItems);
      return { kind: 'applied', action: locked.kind, stage, lane, changed };
    });
  }

  private async insert(filter: unknown, request: ActionRequest, tx: Transaction): Promise<number> {
    const { kind, reason, by } = request;
    const values = [kind, JSON.stringify(filter), reason ?? null, by];
    const [row] = await tx.query<{ id: number }>(INSERT_ACTION, values);
    return row!.id;
  }

  private async record(
    action: number,
    details: { target?: string; filter?: unknown; count: number },
    { kind, by, reason }: ActionRequest,
    tx: Transaction,
  ): Promise<void> {
    await tx.execute(SET_MATCHED, [action, details.count]);
    await this.audit.record({ by, action: `dead-letters.${kind}`, reason, ...details }, tx);
  }

  private async apply(
    tx: Transaction,
    action: number,
    kind: ActionKind,
    place: LaneRef,
    maxItems: number,
  ): Promise<number> {
    const { stage, lane } = place;
    await lockLane(tx, place);
    // A statement after the lock has a snapshot of its own, which includes the last writes of the lane's holder.
    const keys = await tx.query<ChangedKey>(applyAction(stage, kind), [action, lane, maxItems]);
    if (kind === 'revive') await holdRequeuedKeys(tx, place, keys, requeuerOf(action));
    else await endDeadLetterHolds(tx, place, completedKeys(keys));
    return keys.reduce((sum, { changed }) => sum + changed, 0);
  }
}

/** A key whose items are only partly revived continues even at the limit, because none of its items runs before the last. */
async function firstBelowLimit(
  tx: Transaction,
  action: number,
  heads: readonly Head[],
  maxInFlight: number,
): Promise<Head | undefined> {
  const allowed = await Promise.all(
    heads.map(
      (head) => head.inFlight < maxInFlight || isPartlyRequeued(tx, head, head.key, requeuerOf(action)),
    ),
  );
  return heads.find((_, n) => allowed[n]);
}

/** The name is stored with holds and uses the word of the tables. */
function requeuerOf(action: number): Requeuer {
  return { name: `ruling ${action}`, note: `revived by ruling ${action}`, passesDeadLetters: false };
}
