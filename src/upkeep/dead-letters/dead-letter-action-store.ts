import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { Reads } from '../../database/reads.ts';
import type { Transaction } from '../../database/transaction.ts';
import { GROUP_WAKEUPS } from '../../groups/group.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import type { Step } from '../../lanes/paced-jobs.ts';
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
import type { ActionKind, ActionProgress, ActionRequest } from './dead-letter-action.ts';
import {
  ADD_ITEM,
  applyAction,
  INSERT_ACTION,
  LIST,
  LOCK_ACTION,
  LOCK_UNFINISHED,
  MARK_CANCELLED,
  MARK_DONE,
  MARK_PROGRESS,
  matchDeadLetters,
  NEXT_KEYS,
  NEXT_OF_GROUP,
  PROGRESS,
  SET_MATCHED,
  SETTLE_OF_GROUP,
  SKIP_REST,
  UNFINISHED,
} from './dead-letter-actions.sql.ts';
import { deadLettersOf, stagesOf } from './dead-letter-conditions.ts';
import type { DeadLetterFilter, Stage } from './dead-letter-filter.ts';
import type { DeadLetterRow } from './dead-letters-store.ts';
import { GroupActions } from './group-actions.ts';

/** The first key of a queue with remaining items. */
interface Head {
  readonly stage: Stage;
  readonly lane: number;
  readonly key: string;
  /** Items of this action in flight in that queue. */
  readonly inFlight: number;
}

interface Change {
  readonly action: number;
  readonly kind: ActionKind;
  readonly by: string;
}

export interface ActionStep {
  readonly action: ActionKind;
  readonly stage: Stage;
}

/** Rolls back an action on an item that is no longer a dead letter. */
export class NotDead extends Error {}

@Injectable()
export class DeadLetterActionStore {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
    private readonly audit: AuditLog,
    private readonly groups: GroupActions,
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

  /** Applies an action to a single dead letter at once. Throws NotDead or NoRevivedTopic. */
  applyToOne({ stage, id, lane, order_key, position }: DeadLetterRow, request: ActionRequest): Promise<void> {
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const action = await this.insert({ id }, request, tx);
      await tx.execute(ADD_ITEM, [action, stage, lane, order_key, position]);
      await this.record(action, { target: id, count: 1 }, request, tx);
      const changed = await this.apply(tx, { action, ...request }, { stage, lane }, 1);
      if (changed === 0) throw new NotDead();
      await tx.execute(MARK_DONE, [action]);
    });
  }

  async progress(id: number): Promise<ActionProgress | undefined> {
    const [row] = await this.reads.query<ActionProgress>(PROGRESS, [id]);
    return row;
  }

  list(beforeId: number | undefined, limit: number): Promise<ActionProgress[]> {
    return this.reads.query(LIST, [limit, beforeId ?? null]);
  }

  /** False: there is no such action, or it is done. */
  cancel(id: number, by: string): Promise<boolean> {
    return this.database.transaction(async (tx) => {
      const [locked] = await tx.query<{ kind: ActionKind }>(LOCK_UNFINISHED, [id]);
      if (!locked) return false;
      const count = await tx.execute(SKIP_REST, [id]);
      await tx.execute(MARK_CANCELLED, [id, by]);
      const target = `${locked.kind} ${id}`;
      await this.audit.record({ by, action: 'dead-letters.cancel', target, count }, tx);
      return true;
    });
  }

  async unfinished(): Promise<number[]> {
    const rows = await this.database.query<{ id: number }>(UNFINISHED);
    return rows.map(({ id }) => id);
  }

  /**
   * Runs one step in the first queue below its limit in flight; undefined if another replica is at work on the action.
   * Throws NoRevivedTopic.
   */
  step(action: number, maxItems: number, maxInFlight: number): Promise<Step<ActionStep> | undefined> {
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const [locked] = await tx.query<{ kind: ActionKind; by: string }>(LOCK_ACTION, [action]);
      if (!locked) return undefined;
      const heads = await tx.query<Head>(NEXT_KEYS, [action, maxInFlight]);
      if (heads.length === 0) {
        await tx.execute(MARK_DONE, [action]);
        return { kind: 'done' };
      }
      const head = await firstBelowLimit(tx, action, heads, maxInFlight);
      if (!head) return { kind: 'full' };
      const { stage, lane } = head;
      const rows = await this.apply(tx, { action, ...locked }, { stage, lane }, maxItems);
      await tx.execute(MARK_PROGRESS, [action]);
      return { kind: 'changed', action: locked.kind, stage, ...wokenBy({ stage, lane }), rows };
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

  private apply(
    tx: Transaction,
    change: Change,
    { stage, lane }: Pick<Head, 'stage' | 'lane'>,
    maxItems: number,
  ): Promise<number> {
    return stage === 'group'
      ? this.applyInGroup(tx, change, lane, maxItems)
      : this.applyInLane(tx, change, { stage, lane }, maxItems);
  }

  private async applyInLane(
    tx: Transaction,
    { action, kind }: Change,
    place: LaneRef,
    maxItems: number,
  ): Promise<number> {
    const { stage, lane } = place;
    await lockLane(tx, place);
    // A statement after the lock has a snapshot of its own, which includes the last writes of the lane's owner.
    const keys = await tx.query<ChangedKey>(applyAction(stage, kind), [action, lane, maxItems]);
    if (kind === 'revive') await holdRequeuedKeys(tx, place, keys, requeuerOf(action));
    else await endDeadLetterHolds(tx, place, completedKeys(keys));
    return keys.reduce((sum, { changed }) => sum + changed, 0);
  }

  private async applyInGroup(
    tx: Transaction,
    { action, kind, by }: Change,
    lane: number,
    maxItems: number,
  ): Promise<number> {
    const items = await tx.query<{ position: number }>(NEXT_OF_GROUP, [action, lane, maxItems]);
    const positions = items.map(({ position }) => position);
    const changed = await this.groups.apply(tx, kind, lane, positions, by);
    await tx.execute(SETTLE_OF_GROUP, [action, lane, positions, changed]);
    return changed.length;
  }
}

/** Who is woken by a change: the workers of a lane, or the members of a group. */
export function wokenBy({ stage, lane }: Pick<Head, 'stage' | 'lane'>): { queue: string; lane: number } {
  return { queue: stage === 'group' ? GROUP_WAKEUPS : stage, lane };
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
      ({ stage, lane, key, inFlight }) =>
        inFlight < maxInFlight ||
        (stage !== 'group' && isPartlyRequeued(tx, { stage, lane }, key, requeuerOf(action))),
    ),
  );
  return heads.find((_, n) => allowed[n]);
}

/** The name is stored with holds and uses the word of the tables. */
function requeuerOf(action: number): Requeuer {
  return { name: `ruling ${action}`, note: `revived by ruling ${action}`, passesDeadLetters: false };
}
