import { Inject, Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { isConflictOfTransactions, isDatabaseAway } from '../../database/errors.ts';
import { groupBy } from '../../database/group-by.ts';
import type { Transaction } from '../../database/transaction.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import type { HoldRequest } from '../../lanes/lane-queue-types.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { HoldTimers } from '../claim/hold-timers.ts';
import type { LeasedLane } from '../claim/leased-lane.ts';
import { LeasedLanes } from '../claim/leased-lanes.ts';
import { CLAIM_LOST, OutboxQueue } from '../claim/outbox-queue.ts';
import { DeliveryMetrics } from '../health/delivery-metrics.ts';
import { OutboxStore } from '../outbox-store.ts';
import { type Item, type Result, resultsOf, wasSent } from './delivery-result.ts';
import { LostAttempts } from './lost-attempts.ts';
import { type Settlement, settlementOf } from './settlement.ts';
import { retryDelay, type SentCommit, UncertainCommits } from './uncertain-commits.ts';

/** Retries of a batch before its lanes are settled one by one, and of a lane before it is given up. */
const MAX_FAILURES = 3;

class LanesLost extends Error {
  constructor(readonly lanes: readonly LeasedLane[]) {
    super('lanes lost');
  }
}

/**
 * Settles one batch of results in one transaction, retries it, and finds out what became of it when the reply to its
 * COMMIT is lost.
 */
@Injectable()
export class BatchSettler {
  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: OutboxQueue,
    private readonly lanes: LeasedLanes,
    private readonly holdTimers: HoldTimers,
    private readonly store: OutboxStore,
    private readonly lostAttempts: LostAttempts,
    private readonly metrics: DeliveryMetrics,
    private readonly laneMetrics: LaneMetrics,
  ) {}

  /**
   * Returns the items that were not written because their lane was lost or given up. One result that cannot be written
   * must not block the others: if the batch keeps failing, each of its lanes is settled by itself.
   */
  async settle(batch: readonly Item[]): Promise<Item[]> {
    const unwritten = new Set(batch);
    const uncertain = new UncertainCommits(this.store, this.log);
    if (await this.settleOrRetry(unwritten, uncertain)) return [...unwritten];
    for (const items of groupBy([...unwritten], ({ leased }) => leased)) {
      const ofLane = new Set(items);
      if (!(await this.settleOrRetry(ofLane, uncertain))) this.giveUp(items[0]!.leased);
      for (const item of items) if (!ofLane.has(item)) unwritten.delete(item);
    }
    return [...unwritten];
  }

  /**
   * Removes the items that it wrote from `unwritten`; items of lost lanes stay. Returns false if it keeps failing although
   * the database is there.
   */
  private async settleOrRetry(unwritten: Set<Item>, uncertain: UncertainCommits): Promise<boolean> {
    for (let failures = 0; failures < MAX_FAILURES; ) {
      const items = [...unwritten].filter(({ leased }) => !leased.lost);
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
   * Returns the lanes that this replica has lost; if there are any, nothing is written. After an uncertain commit
   * the same is simply written again: rows that were written before do not change twice, and the fence waits for a
   * transaction that is still under way.
   */
  private async commit(items: readonly Item[], uncertain: UncertainCommits): Promise<readonly LeasedLane[]> {
    const results = resultsOf(items);
    const released = items.filter((item) => item.kind === 'end' && item.release).map(({ leased }) => leased);
    const settlement = settlementOf(results);
    for (const leased of released) leased.ending = true;
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
    released: readonly LeasedLane[],
    tx: Transaction,
  ): Promise<{ stamp: number; lost: readonly LeasedLane[]; changed: number }> {
    const [stamp, , lost, recorded, delivered] = await Promise.all([
      this.store.stamp(tx),
      this.store.forceIndexPlans(tx),
      // Also lanes that are only released: if they were locked later, they would be locked out of order.
      this.lanes.fence([...new Set([...results.map(({ leased }) => leased), ...released])], tx),
      this.store.record(settlement.record, tx),
      this.store.delivered(settlement.delivered, tx),
      this.store.endAsDead(settlement.dead, tx),
      this.store.putBack(settlement.putBack, tx),
      this.store.untouched(settlement.untouched, tx),
      this.queue.lanes.hold(settlement.holds, tx),
      this.lanes.release(released, tx),
    ]);
    return { stamp, lost, changed: recorded + delivered };
  }

  /** The fence did not find these lanes: another replica took them over, or an uncertain commit released them. */
  private async lose(
    lost: readonly LeasedLane[],
    unwritten: Set<Item>,
    uncertain: UncertainCommits,
  ): Promise<void> {
    await this.removeCommitted(unwritten, uncertain);
    const takenOver = lost.filter((leased) => {
      const ofLane = [...unwritten].filter((item) => item.leased === leased);
      // If nothing was sent it does not matter who released the lane, and no row shows it.
      const over = uncertain.any && leased.ending && !ofLane.some(wasSent);
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
   * The lanes were leased, and rows in them were not marked as claimed. Either an uncertain commit had written them before;
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

  /** The lease expires, and the next owner of the lane records that the outcome is unknown. */
  private giveUp(leased: LeasedLane): void {
    leased.lost = true;
    this.lanes.drop(leased);
    this.log.error(
      { event: 'outbox.lane-given-up', lane: leased.lane },
      'the results of a lane cannot be written; its deliveries are sent again when its lease has expired',
    );
  }
}
