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
import { deadLettersOf, stagesOf } from './dead-letter-conditions.ts';
import type { DeadLetterFilter } from './dead-letter-filter.ts';
import type { DeadLetterRow } from './dead-letters-store.ts';
import type { RulingKind, RulingProgress, RulingRequest, Step } from './ruling.ts';
import {
  ADD_ITEM,
  applyRuling,
  INSERT_RULING,
  MARK_DONE,
  matchDeadLetters,
  NEXT_KEYS,
  PROGRESS,
  SET_MATCHED,
  TAKE_RULING,
  UNDONE,
} from './rulings.sql.ts';

/** The first key with something left of a queue. */
interface Head extends LaneRef {
  readonly key: string;
  /** On its way in that queue. */
  readonly waiting: number;
}

/** Undoes a ruling about one that is no dead letter any more. */
export class NotDead extends Error {}

@Injectable()
export class RulingStore {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
    private readonly audit: AuditLog,
  ) {}

  /** Whom the filter means now is written down; it does not grow while the ruling is carried out. */
  create(filter: DeadLetterFilter, request: RulingRequest): Promise<{ id: number; matched: number }> {
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

  /** One, at once. Throws NotDead. */
  one({ stage, id, lane, order_key, position }: DeadLetterRow, request: RulingRequest): Promise<void> {
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const ruling = await this.insert({ id }, request, tx);
      await tx.execute(ADD_ITEM, [ruling, stage, lane, order_key, position]);
      await this.record(ruling, { target: id, count: 1 }, request, tx);
      const changed = await this.apply(tx, ruling, request.kind, { stage, lane }, 1);
      if (changed === 0) throw new NotDead();
      await tx.execute(MARK_DONE, [ruling]);
    });
  }

  async progress(id: number): Promise<RulingProgress | undefined> {
    const [row] = await this.reads.query<RulingProgress>(PROGRESS, [id]);
    return row;
  }

  async undone(): Promise<number[]> {
    const rows = await this.database.query<{ id: number }>(UNDONE);
    return rows.map(({ id }) => id);
  }

  /** One step of a ruling, in the first queue that has room; undefined: another replica is at it. */
  step(ruling: number, maxItems: number, maxInFlight: number): Promise<Step | undefined> {
    return this.database.transaction(async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const [taken] = await tx.query<{ kind: RulingKind }>(TAKE_RULING, [ruling]);
      if (!taken) return undefined;
      const heads = await tx.query<Head>(NEXT_KEYS, [ruling, maxInFlight]);
      if (heads.length === 0) {
        await tx.execute(MARK_DONE, [ruling]);
        return { kind: 'done' };
      }
      const head = await withRoom(tx, ruling, heads, maxInFlight);
      if (!head) return { kind: 'full' };
      const { stage, lane } = head;
      const changed = await this.apply(tx, ruling, taken.kind, { stage, lane }, maxItems);
      return { kind: 'applied', ruling: taken.kind, stage, lane, changed };
    });
  }

  private async insert(filter: unknown, request: RulingRequest, tx: Transaction): Promise<number> {
    const { kind, reason, by } = request;
    const values = [kind, JSON.stringify(filter), reason ?? null, by];
    const [row] = await tx.query<{ id: number }>(INSERT_RULING, values);
    return row!.id;
  }

  private async record(
    ruling: number,
    what: { target?: string; filter?: unknown; count: number },
    { kind, by, reason }: RulingRequest,
    tx: Transaction,
  ): Promise<void> {
    await tx.execute(SET_MATCHED, [ruling, what.count]);
    await this.audit.record({ by, action: `dead-letters.${kind}`, reason, ...what }, tx);
  }

  private async apply(
    tx: Transaction,
    ruling: number,
    kind: RulingKind,
    place: LaneRef,
    maxItems: number,
  ): Promise<number> {
    const { stage, lane } = place;
    await lockLane(tx, place);
    // Another statement, with a snapshot of its own: what the lane's holder wrote last is seen.
    const keys = await tx.query<ChangedKey>(applyRuling(stage, kind), [ruling, lane, maxItems]);
    if (kind === 'revive') await holdRequeuedKeys(tx, place, keys, keeperOf(ruling));
    else await endDeadLetterHolds(tx, place, completedKeys(keys));
    return keys.reduce((sum, { changed }) => sum + changed, 0);
  }
}

/** A key that is half way is not on its way: it is gone on with. */
async function withRoom(
  tx: Transaction,
  ruling: number,
  heads: readonly Head[],
  maxInFlight: number,
): Promise<Head | undefined> {
  const rooms = await Promise.all(
    heads.map((head) => head.waiting < maxInFlight || isPartlyRequeued(tx, head, head.key, keeperOf(ruling))),
  );
  return heads.find((_, n) => rooms[n]);
}

function keeperOf(ruling: number): Requeuer {
  return { name: `ruling ${ruling}`, note: `revived by ruling ${ruling}`, passesDeadLetters: false };
}
