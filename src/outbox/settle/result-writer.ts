import { Inject, Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { isConflictOfTransactions, isDatabaseAway } from '../../database/faults.ts';
import type { HoldRequest } from '../../lanes/hold-request.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import { HeldLanes } from '../claim/held-lanes.ts';
import { CLAIM_LOST, LANE_LOST } from '../claim/lost-lane.ts';
import { OutboxQueue } from '../claim/outbox-queue.ts';
import { DeliveryMetrics } from '../health/delivery-metrics.ts';
import { OutboxStore, type Try } from '../outbox-store.ts';
import type { Result, Tried } from './delivery-result.ts';
import { FlushDelay, type Urgency } from './flush-delay.ts';
import { type Settlement, settlementOf } from './settlement.ts';
import { rest, Stamps } from './stamps.ts';

/** The end of a run: everything of its lane before it is written, and the lane is released if that is wanted. */
interface End {
  readonly kind: 'end';
  readonly held: HeldLane;
  readonly release: boolean;
  resolve(): void;
}
type Item = Result | End;

/** As often a group is written again before its lanes are tried one by one, and a lane before it is given up. */
const MAX_FAILURES = 3;
const GROUP = 2_000;

/** A transaction whose COMMIT was sent: whether it happened is known by the rows that carry its stamp. */
interface Doubt {
  readonly stamp: number;
  readonly items: readonly Item[];
}

class LanesLost extends Error {
  constructor(readonly lanes: readonly HeldLane[]) {
    super('lanes lost');
  }
}

/**
 * Writes results in groups: the first one after a rest at once; while a transaction is on its way, and for a moment after it,
 * those that come gather for the next. Many lanes, many listeners, one commit. A result is kept until it is written or its
 * lane is lost: what was sent is recorded.
 */
@Injectable()
export class ResultWriter {
  /** Told of holds that are set, after the commit. */
  onHolds: (holds: readonly HoldRequest[]) => void = () => undefined;
  private items: Item[] = [];
  private writing = false;
  private readonly flushDelay = new FlushDelay();
  private readonly stamps: Stamps;

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: OutboxQueue,
    private readonly lanes: HeldLanes,
    private readonly store: OutboxStore,
    private readonly metrics: DeliveryMetrics,
    private readonly laneMetrics: LaneMetrics,
  ) {
    this.stamps = new Stamps(store, log);
  }

  add(result: Result): void {
    this.push(result);
  }

  /** Resolves when what was added for the lane is written, or the lane is lost; it waits for nothing that comes later. */
  end(held: HeldLane, release: boolean): Promise<void> {
    return new Promise((resolve) => this.push({ kind: 'end', held, release, resolve }));
  }

  private push(item: Item): void {
    this.items.push(item);
    if (!this.writing) void this.writeAll();
    else if (item.kind === 'end' || this.items.length >= GROUP) this.flushDelay.hurry();
  }

  private async writeAll(): Promise<void> {
    this.writing = true;
    await new Promise(setImmediate);
    while (this.items.length > 0) {
      const group = this.items.splice(0, GROUP);
      const unwritten = await this.writeGroup(group);
      await this.recordLost(unwritten, LANE_LOST);
      for (const item of group) if (item.kind === 'end') item.resolve();
      if (this.items.length < GROUP) await this.flushDelay.wait(() => this.gathered());
    }
    this.writing = false;
  }

  private gathered(): Urgency {
    if (this.items.length === 0) return 'nothing';
    return this.items.some(({ kind }) => kind === 'end') ? 'urgent' : 'something';
  }

  /** One that cannot be written must not keep the others waiting: then each lane is written by itself. */
  private async writeGroup(group: readonly Item[]): Promise<Item[]> {
    const unwritten = new Set(group);
    const doubts: Doubt[] = [];
    if (await this.written(unwritten, doubts)) return [...unwritten];
    for (const items of byHeld([...unwritten])) {
      const own = new Set(items);
      if (!(await this.written(own, doubts))) this.giveUp(items[0]!.held);
      for (const item of items) if (!own.has(item)) unwritten.delete(item);
    }
    return [...unwritten];
  }

  /** Leaves what cannot be written because its lane is lost. False: it fails again and again, and not because the database is away. */
  private async written(group: Set<Item>, doubts: Doubt[]): Promise<boolean> {
    for (let failures = 0; failures < MAX_FAILURES; ) {
      const items = [...group].filter(({ held }) => !held.lost);
      try {
        if (items.length === 0) {
          if ([...group].some(wasSent)) await this.takeOut(group, doubts);
          return true;
        }
        const lost = await this.write(items, doubts);
        if (lost.length > 0) await this.lose(lost, group, doubts);
        else for (const item of items) group.delete(item);
      } catch (error) {
        // What is in doubt may still hold its locks, as long as a standby is waited for.
        const waits = doubts.length > 0 && isConflictOfTransactions(error);
        if (!isDatabaseAway(error) && !waits) failures += 1;
        this.log.warn(
          { event: 'outbox.settle-failed', results: items.length, failures, error },
          'results are written again',
        );
        await rest();
      }
    }
    return false;
  }

  /**
   * Nothing is written where lanes are not ours any more; answers with those. Where a COMMIT is in doubt it is simply
   * written again: what was written before is not changed twice. The fence waits for one that is still under way.
   */
  private async write(items: readonly Item[], doubts: Doubt[]): Promise<readonly HeldLane[]> {
    const results = resultsOf(items);
    const released = items.filter((item) => item.kind === 'end' && item.release).map(({ held }) => held);
    const settlement = settlementOf(results);
    for (const held of released) held.ending = true;
    let doubt: Doubt | undefined;
    let changed = 0;
    try {
      await this.database.transaction(async (tx) => {
        const [stamp, , lost, recorded, delivered] = await Promise.all([
          this.store.stamp(tx),
          this.store.plan(tx),
          // Also those that are only released: locked later, they would be locked out of order.
          this.lanes.fence([...new Set([...results.map(({ held }) => held), ...released])], tx),
          this.store.record(settlement.record, tx),
          this.store.delivered(settlement.delivered, tx),
          this.store.bury(settlement.bury, tx),
          this.store.putBack(settlement.putBack, tx),
          this.store.untouched(settlement.untouched, tx),
          this.queue.lanes.hold(settlement.holds, tx),
          this.lanes.release(released, tx),
        ]);
        if (lost.length > 0) throw new LanesLost(lost);
        changed = recorded + delivered;
        doubt = { stamp, items };
      });
    } catch (error) {
      if (error instanceof LanesLost) return error.lanes;
      if (doubt) doubts.push(doubt);
      throw error;
    }
    if (changed < settlement.record.length + settlement.delivered.length) {
      const stamped = await this.stamps.ofCommitted(stampsOf([doubt!, ...doubts]), results);
      await this.recordUnclaimed(results, stamped?.positions);
    }
    this.tell(results, settlement);
    return [];
  }

  /** Not ours any more; or released by ourselves, with a COMMIT that was in doubt until now. */
  private async lose(lost: readonly HeldLane[], group: Set<Item>, doubts: readonly Doubt[]): Promise<void> {
    await this.takeOut(group, doubts);
    const gone = lost.filter((held) => {
      const own = [...group].filter((item) => item.held === held);
      // Where nothing was sent it does not matter who released the lane, and no row says.
      const over = doubts.length > 0 && held.ending && !own.some(wasSent);
      if (over) for (const item of own) group.delete(item);
      return !over && own.length > 0;
    });
    if (gone.length === 0) return;
    this.laneMetrics.fencedWrite('outbox');
    this.lanes.lose(gone);
  }

  /** Those of the group that a COMMIT in doubt did write: any row that carries its stamp says so for all of them. */
  private async takeOut(group: Set<Item>, doubts: readonly Doubt[]): Promise<void> {
    if (doubts.length === 0) return;
    const all = resultsOf(doubts.flatMap(({ items }) => items));
    const { stamps, positions } = await this.stamps.of(stampsOf(doubts), all);
    for (const { items } of doubts.filter(({ stamp }) => stamps.has(stamp))) {
      const results = resultsOf(items).filter((item) => group.has(item));
      for (const item of items) group.delete(item);
      await this.recordUnclaimed(results, positions);
      this.tell(results, settlementOf(results));
    }
  }

  /**
   * The lanes were ours, and rows in them not marked. They were written before, by a COMMIT that was in doubt; or their
   * claim, which is not made durable by itself, was lost with a server: then they are sent again, and this is why.
   */
  private async recordUnclaimed(
    results: readonly Result[],
    written: ReadonlySet<number> | undefined,
  ): Promise<void> {
    const unclaimed = results.filter(({ delivery }) => written && !written.has(delivery.position));
    await this.recordLost(unclaimed, CLAIM_LOST);
  }

  private tell(results: readonly Result[], { holds }: Settlement): void {
    for (const result of results) if (result.kind === 'tried') this.metrics.settled(result);
    if (holds.length > 0) this.onHolds(holds);
  }

  /**
   * What was sent on a lane that is not ours any more is sent again by its next holder. Why, only we know if the database
   * forgot our claim with its last moments before a crash; so it is written down beside what the next holder does.
   */
  private async recordLost(unwritten: readonly Item[], why: string): Promise<void> {
    const tries = unwritten.filter(wasSent).map((item) => lostTry(item, why));
    if (tries.length === 0) return;
    try {
      await this.store.recordLost(tries);
    } catch (error) {
      this.log.warn(
        { event: 'outbox.record-failed', deliveries: tries.map(({ delivery }) => delivery.id), error },
        'they may be sent again, and their stories do not say why',
      );
    }
  }

  /** Its lease ends, and whoever takes it over says so in the record. */
  private giveUp(held: HeldLane): void {
    held.lost = true;
    this.lanes.drop(held);
    this.log.error(
      { event: 'outbox.lane-given-up', lane: held.lane },
      'what came of its deliveries cannot be written; they are sent again when its lease has ended',
    );
  }
}

function stampsOf(doubts: readonly Doubt[]): number[] {
  return doubts.map(({ stamp }) => stamp);
}

function resultsOf(items: readonly Item[]): Result[] {
  return items.filter((item) => item.kind !== 'end');
}

function wasSent(item: Item): item is Tried {
  return item.kind === 'tried';
}

function lostTry({ delivery, answer }: Tried, why: string): Try {
  const answered = answer.kind === 'answered';
  const error = `${answered ? `answered ${answer.status}` : answer.detail}; ${why}`;
  const status = answered ? answer.status : undefined;
  const excerpt = answered ? answer.excerpt : undefined;
  return { delivery, status, error, excerpt, durationMs: answer.durationMs };
}

function byHeld(items: readonly Item[]): Item[][] {
  const groups = new Map<HeldLane, Item[]>();
  for (const item of items) {
    const known = groups.get(item.held);
    if (known) known.push(item);
    else groups.set(item.held, [item]);
  }
  return [...groups.values()];
}
