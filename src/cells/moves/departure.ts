import { setTimeout as pause } from 'node:timers/promises';
import type { ReadModel } from '../../contract/read-model.ts';
import type { Database } from '../../database/database.ts';
import { isConflictOfTransactions } from '../../database/errors.ts';
import type { Transaction } from '../../database/transaction.ts';
import { openFence } from '../catalogue-store.ts';
import {
  ANALYZE_MOVED,
  COUNTED,
  COUNTERS,
  CREATE_MOVED,
  END_HOLDS,
  engineContents,
  FIND_DELIVERIES,
  FIND_MESSAGES,
  FORGET_JOBS,
  HAS_HISTORY,
  HOLD_DELIVERIES,
  IN_FLIGHT,
  LOCK_OUTBOX_LANES,
  LOCK_STOPPED_LANE,
  RELEASE_LANE,
  REMOVE_HOLDS,
  REMOVE_MOVED,
  STOP_LANE,
  TOPIC_OF_SLOT,
  UNFINISHED_JOB,
  UNMARK_MESSAGES,
} from './departure.sql.ts';
import { lockJobs, rebuiltModel } from './jobs.ts';
import { enter, MoveEnded, undoUnlessArrived } from './marker.ts';
import { contentsOfModels, keysOfSlot } from './model-tables.ts';
import type { Move } from './move-store.ts';
import { type Packable, pack, packable, removeParcels, unpackHere } from './parcels.ts';
import { MoveRefused } from './refused.ts';

/** Polled this often until nothing of the slot is in flight. */
const POLL_MS = 50;

/** How far the sequences of a cell have come. */
export interface Counted {
  readonly inbox: number;
  readonly outbox: number;
  readonly applied: number;
}

/** The cell that the slot leaves. */
export class Departure {
  constructor(
    private readonly database: Database,
    private readonly models: readonly ReadModel[],
    private readonly move: Move,
  ) {}

  /** From now on nothing of the slot is processed; messages are still accepted. */
  async stopLane(): Promise<void> {
    const { id, slot } = this.move;
    await this.database.transaction(async (tx) => {
      await enter(tx, id);
      await tx.execute(STOP_LANE, [slot, id]);
    });
  }

  /** Waits until no receiver or consumer has a delivery of the slot, and lets none get one. */
  async untilQuiet(maxMs: number): Promise<void> {
    const untilMs = performance.now() + maxMs;
    for (;;) {
      const obstacle = await this.tryToQuiesce();
      if (obstacle === undefined) return;
      if (performance.now() >= untilMs) throw new MoveRefused(obstacle);
      await pause(POLL_MS);
    }
  }

  /** What leaves, to be found before the pause. */
  async findContents(): Promise<readonly Packable[]> {
    const { slot } = this.move;
    await this.refuseTopicsAndHistory();
    const models = await contentsOfModels(this.database, this.models, slot);
    const counted = await keysOfSlot(this.database, 'delivery_sequence', 'key', slot);
    const contents = [...engineContents(slot), { ...COUNTERS, parameters: [counted] }, ...models];
    return packable(this.database, contents);
  }

  /** Takes the rows out of their tables, in one transaction. Nothing of the slot is left in them. Returns how many. */
  async packAll(contents: readonly Packable[]): Promise<number> {
    const { id, slot } = this.move;
    return this.database.transaction(async (tx) => {
      await enter(tx, id);
      await lockJobs(tx);
      if ((await tx.query(LOCK_STOPPED_LANE, [slot, id])).length === 0)
        throw new MoveEnded('the lane is not that of the move any more');
      await tx.query(LOCK_OUTBOX_LANES);
      const obstacle = await obstacleOf(tx, slot);
      if (obstacle !== undefined) throw new MoveRefused(obstacle);
      await this.findRows(tx);
      const packed = await Promise.all(contents.map((content, nth) => pack(tx, id, nth, content)));
      await this.remove(tx, contents);
      return packed.reduce((sum, rows) => sum + rows, 0);
    });
  }

  async counted(): Promise<Counted> {
    return (await this.database.query<Counted>(COUNTED))[0]!;
  }

  get source(): Database {
    return this.database;
  }

  /** The slot stays here. `version`: of the slot, if its fence was closed. */
  async undo(version: number | undefined): Promise<void> {
    const { id, slot, from } = this.move;
    await this.database.transaction(async (tx) => {
      await undoUnlessArrived(tx, id);
      if (version !== undefined) await openFence(tx, from, slot, version);
      await unpackHere(tx, id);
      await this.releaseLane(tx);
    });
  }

  /** After the switch. */
  async clean(): Promise<void> {
    await this.database.transaction(async (tx) => {
      await removeParcels(tx, this.move.id);
      await this.releaseLane(tx);
    });
  }

  private async releaseLane(tx: Transaction): Promise<void> {
    const { id, slot } = this.move;
    await tx.execute(END_HOLDS, [id]);
    await tx.execute(RELEASE_LANE, [slot, id]);
  }

  private async tryToQuiesce(): Promise<string | undefined> {
    const { id, slot } = this.move;
    try {
      return await this.database.transaction(async (tx) => {
        await enter(tx, id);
        await tx.execute(HOLD_DELIVERIES, [slot, id]);
        return obstacleOf(tx, slot);
      });
    } catch (error) {
      // A lane's owner sets holds, too, in another order.
      if (isConflictOfTransactions(error)) return 'its deliveries are changed all the time';
      throw error;
    }
  }

  /** The last tables first: others may refer to them. Counters stay. */
  private async remove(tx: Transaction, contents: readonly Packable[]): Promise<void> {
    const ofModels = contents.slice(engineContents(0).length + 1).reverse();
    await Promise.all([
      ...REMOVE_MOVED.map((sql) => tx.execute(sql)),
      tx.execute(REMOVE_HOLDS, [this.move.slot]),
      ...ofModels.map(({ table, condition, parameters }) =>
        tx.execute(`DELETE FROM ${table} AS packed WHERE ${condition.replace('$3', '$1')}`, parameters),
      ),
    ]);
  }

  private async findRows(tx: Transaction): Promise<void> {
    const { id, slot } = this.move;
    await Promise.all([
      ...CREATE_MOVED.map((sql) => tx.execute(sql)),
      ...FIND_MESSAGES.map((sql) => tx.execute(sql, [slot])),
      tx.execute(FIND_DELIVERIES),
      ...ANALYZE_MOVED.map((sql) => tx.execute(sql)),
      tx.execute(UNMARK_MESSAGES),
      ...FORGET_JOBS.map((sql) => tx.execute(sql)),
      tx.execute(END_HOLDS, [id]),
    ]);
  }

  private async refuseTopicsAndHistory(): Promise<void> {
    const { slot } = this.move;
    const [entry] = await this.database.query<{ topic: string }>(TOPIC_OF_SLOT, [slot]);
    if (entry)
      throw new MoveRefused(
        `the topic "${entry.topic}" has messages of the slot, which are read by their offset in this cell; wait until its retention has removed them, or delete it`,
      );
    if ((await this.database.query(HAS_HISTORY, [slot])).length > 0)
      throw new MoveRefused('history has blocks with messages of the slot, which cannot be moved');
  }
}

/** Why the slot cannot be taken out right now. */
async function obstacleOf(tx: Transaction, slot: number): Promise<string | undefined> {
  const model = await rebuiltModel(tx);
  if (model !== undefined) return `the read model "${model}" is being rebuilt; end its rebuild first`;
  const [unfinished] = await tx.query<{ job: string }>(UNFINISHED_JOB);
  if (unfinished) return `${unfinished.job} has not ended`;
  const [inFlight] = await tx.query<{ listener: string }>(IN_FLIGHT, [slot]);
  return inFlight && `the listener "${inFlight.listener}" still has a delivery of the slot in flight`;
}
