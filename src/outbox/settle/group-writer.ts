import { Inject, Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { isConflictOfTransactions, isDatabaseAway } from '../../database/faults.ts';
import { groupBy } from '../../database/group-by.ts';
import type { Transaction } from '../../database/transaction.ts';
import type { HoldRequest } from '../../lanes/hold-request.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { CLAIM_LOST } from '../claim/claimed-delivery.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import { HeldLanes } from '../claim/held-lanes.ts';
import { HoldTimers } from '../claim/hold-timers.ts';
import { OutboxQueue } from '../claim/outbox-queue.ts';
import { DeliveryMetrics } from '../health/delivery-metrics.ts';
import { OutboxStore } from '../outbox-store.ts';
import { type Item, type Result, resultsOf, wasSent } from './delivery-result.ts';
import { LostAttempts } from './lost-attempts.ts';
import { type Settlement, settlementOf } from './settlement.ts';
import { retryDelay, type SentCommit, UncertainCommits } from './uncertain-commits.ts';

/** Retries of a group before its lanes are written one by one, and of a lane before it is given up. */
const MAX_FAILURES = 3;

class LanesLost extends Error {
  constructor(readonly lanes: readonly HeldLane[]) {
    super('lanes lost');
  }
}

/** Writes one group of results, retries it, and finds out what became of it when the reply to its COMMIT is lost. */
@Injectable()
export class GroupWriter {
  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: OutboxQueue,
    private readonly lanes: HeldLanes,
    private readonly holdTimers: HoldTimers,
    private readonly store: OutboxStore,
    private readonly lostAttempts: LostAttempts,
    private readonly metrics: DeliveryMetrics,
    private readonly laneMetrics: LaneMetrics,
  ) {}

  /**
   * Returns the items that were not written because their lane was lost or given up. One result that cannot be written
   * must not block the others: if the group keeps failing, each of its lanes is written by itself.
   */
  async write(group: readonly Item[]): Promise<Item[]> {
    const unwritten = new Set(group);
    const uncertain = new UncertainCommits(this.store, this.log);
    if (await this.writeOrRetry(unwritten, uncertain)) return [...unwritten];
    for (const items of groupBy([...unwritten], ({ held }) => held)) {
      const ofLane = new Set(items);
      if (!(await this.writeOrRetry(ofLane, uncertain))) this.giveUp(items[0]!.held);
      for (const item of items) if (!ofLane.has(item)) unwritten.delete(item);
    }
    return [...unwritten];
  }

  /**
   * Removes the items that it wrote from `unwritten`; items of lost lanes stay. Returns false if it keeps failing although
   * the database is there.
   */
  private async writeOrRetry(unwritten: Set<Item>, uncertain: UncertainCommits): Promise<boolean> {
    for (let failures = 0; failures < MAX_FAILURES; ) {
      const items = [...unwritten].filter(({ held }) => !held.lost);
      try {
        if (items.length === 0) {
          if ([...unwritten].some(wasSent)) await this.removeCommitted(unwritten, uncertain);
          return true;
        }
        const lost = await this.commit(items, uncertain);
        if (lost.length > 0) await this.lose(lost, unwritten, uncertain);
        else for (const item of items) unwritten.delete(item);
      } catch (error) {
        // A transaction of an uncertain commit may still hold its locks, as long as it waits for a standby.
        const blocked = uncertain.any && isConflictOfTransactions(error);
        if (!isDatabaseAway(error) && !blocked) failures += 1;
        this.log.warn(
          { event: 'outbox.settle-failed', results: items.length, failures, error },
          'writing results failed; it is retried',
        );
        await retryDelay();
      }
    }
    return false;
  }

  /**
   * Returns the lanes that this replica no longer holds; if there are any, nothing is written. After an uncertain commit
   * the same is simply written again: rows that were written before do not change twice, and the fence waits for a
   * transaction that is still under way.
   */
  private async commit(items: readonly Item[], uncertain: UncertainCommits): Promise<readonly HeldLane[]> {
    const results = resultsOf(items);
    const released = items.filter((item) => item.kind === 'end' && item.release).map(({ held }) => held);
    const settlement = settlementOf(results);
    for (const held of released) held.ending = true;
    let sent: SentCommit | undefined;
    let changed = 0;
    try {
      await this.database.transaction(async (tx) => {
        const written = await this.issue(results, settlement, released, tx);
        if (written.lost.length > 0) throw new LanesLost(written.lost);
        changed = written.changed;
        sent = { stamp: written.stamp, items };
      });
    } catch (error) {
      if (error instanceof LanesLost) return error.lanes;
      if (sent) uncertain.add(sent);
      throw error;
    }
    if (changed < settlement.record.length + settlement.delivered.length)
      await this.recordUnclaimed(results, await uncertain.positionsWritten(sent!, results));
    this.report(results, settlement.holds);
    return [];
  }

  /** All statements of the transaction, in one round trip. */
  private async issue(
    results: readonly Result[],
    settlement: Settlement,
    released: readonly HeldLane[],
    tx: Transaction,
  ): Promise<{ stamp: number; lost: readonly HeldLane[]; changed: number }> {
    const [stamp, , lost, recorded, delivered] = await Promise.all([
      this.store.stamp(tx),
      this.store.plan(tx),
      // Also lanes that are only released: if they were locked later, they would be locked out of order.
      this.lanes.fence([...new Set([...results.map(({ held }) => held), ...released])], tx),
      this.store.record(settlement.record, tx),
      this.store.delivered(settlement.delivered, tx),
      this.store.bury(settlement.bury, tx),
      this.store.putBack(settlement.putBack, tx),
      this.store.untouched(settlement.untouched, tx),
      this.queue.lanes.hold(settlement.holds, tx),
      this.lanes.release(released, tx),
    ]);
    return { stamp, lost, changed: recorded + delivered };
  }

  /** The fence did not find these lanes: another replica took them over, or an uncertain commit released them. */
  private async lose(
    lost: readonly HeldLane[],
    unwritten: Set<Item>,
    uncertain: UncertainCommits,
  ): Promise<void> {
    await this.removeCommitted(unwritten, uncertain);
    const takenOver = lost.filter((held) => {
      const ofLane = [...unwritten].filter((item) => item.held === held);
      // If nothing was sent it does not matter who released the lane, and no row shows it.
      const over = uncertain.any && held.ending && !ofLane.some(wasSent);
      if (over) for (const item of ofLane) unwritten.delete(item);
      return !over && ofLane.length > 0;
    });
    if (takenOver.length === 0) return;
    this.laneMetrics.fencedWrite('outbox');
    this.lanes.lose(takenOver);
  }

  /** Removes the items that an uncertain commit did write. */
  private async removeCommitted(unwritten: Set<Item>, uncertain: UncertainCommits): Promise<void> {
    if (!uncertain.any) return;
    const { commits, positions } = await uncertain.committed();
    for (const { items } of commits) {
      const results = resultsOf(items).filter((item) => unwritten.has(item));
      for (const item of items) unwritten.delete(item);
      await this.recordUnclaimed(results, positions);
      this.report(results, settlementOf(results).holds);
    }
  }

  /**
   * The lanes were held, and rows in them were not marked as claimed. Either an uncertain commit had written them before;
   * or their claim, which is not made durable by itself, was lost with a server: then they are sent again, and the
   * record shows why.
   */
  private async recordUnclaimed(
    results: readonly Result[],
    written: ReadonlySet<number> | undefined,
  ): Promise<void> {
    const unclaimed = results.filter(({ delivery }) => written && !written.has(delivery.position));
    await this.lostAttempts.record(unclaimed, CLAIM_LOST);
  }

  private report(results: readonly Result[], holds: readonly HoldRequest[]): void {
    for (const result of results) if (wasSent(result)) this.metrics.settled(result);
    this.holdTimers.add(holds);
  }

  /** The lease expires, and the next holder of the lane records that the outcome is unknown. */
  private giveUp(held: HeldLane): void {
    held.lost = true;
    this.lanes.drop(held);
    this.log.error(
      { event: 'outbox.lane-given-up', lane: held.lane },
      'the results of a lane cannot be written; its deliveries are sent again when its lease has expired',
    );
  }
}
