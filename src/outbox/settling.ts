import { Inject, Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import { isDatabaseAway } from '../database/faults.ts';
import type { HoldRequest } from '../lanes/hold-request.ts';
import { LaneMetrics } from '../lanes/lane-metrics.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { DeliveryMetrics } from './delivery-metrics.ts';
import type { Result, Tried } from './delivery-result.ts';
import { type Gathered, Gathering } from './gathering.ts';
import type { HeldLane } from './held-lane.ts';
import { HeldLanes } from './held-lanes.ts';
import { LANE_LOST } from './lost-lane.ts';
import { OutboxQueue } from './outbox-queue.ts';
import { OutboxStore, type Try } from './outbox-store.ts';
import { type Settlement, settlementOf } from './settlement.ts';

/** The end of a run: everything of its lane before it is written, and the lane is released if that is wanted. */
interface End {
  readonly kind: 'end';
  readonly held: HeldLane;
  readonly release: boolean;
  resolve(): void;
}
type Item = Result | End;

const RETRY_MS = 200;
/** As often a group is written again before its lanes are tried one by one, and a lane before it is given up. */
const MOST_FAILURES = 3;
const GROUP = 2_000;

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
export class Settling {
  /** Told of holds that are set, after the commit. */
  onHolds: (holds: readonly HoldRequest[]) => void = () => undefined;
  private items: Item[] = [];
  private writing = false;
  private readonly gathering = new Gathering();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: OutboxQueue,
    private readonly lanes: HeldLanes,
    private readonly store: OutboxStore,
    private readonly metrics: DeliveryMetrics,
    private readonly laneMetrics: LaneMetrics,
  ) {}

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
    else if (item.kind === 'end' || this.items.length >= GROUP) this.gathering.hurry();
  }

  private async writeAll(): Promise<void> {
    this.writing = true;
    await new Promise(setImmediate);
    while (this.items.length > 0) {
      const group = this.items.splice(0, GROUP);
      const unwritten = await this.writeGroup(group);
      await this.recordLost(unwritten);
      for (const item of group) if (item.kind === 'end') item.resolve();
      if (this.items.length < GROUP) await this.gathering.wait(() => this.gathered());
    }
    this.writing = false;
  }

  private gathered(): Gathered {
    if (this.items.length === 0) return 'nothing';
    return this.items.some(({ kind }) => kind === 'end') ? 'urgent' : 'something';
  }

  /** One that cannot be written must not keep the others waiting: then each lane is written by itself. */
  private async writeGroup(group: readonly Item[]): Promise<Item[]> {
    const unwritten = new Set(group);
    if (await this.written(unwritten)) return [...unwritten];
    for (const items of byHeld([...unwritten])) {
      const own = new Set(items);
      if (!(await this.written(own))) this.giveUp(items[0]!.held);
      for (const item of items) if (!own.has(item)) unwritten.delete(item);
    }
    return [...unwritten];
  }

  /** Leaves what cannot be written because its lane is lost. False: it fails again and again, and not because the database is away. */
  private async written(group: Set<Item>): Promise<boolean> {
    for (let failures = 0; failures < MOST_FAILURES; ) {
      const items = [...group].filter(({ held }) => !held.lost);
      if (items.length === 0) return true;
      try {
        const lost = await this.write(items);
        if (lost.length > 0) {
          this.laneMetrics.fencedWrite('outbox');
          this.lanes.lose(lost);
        } else for (const item of items) group.delete(item);
      } catch (error) {
        if (!isDatabaseAway(error)) failures += 1;
        this.log.warn(
          { event: 'outbox.settle-failed', results: items.length, failures, error },
          'results are written again',
        );
        await rest();
      }
    }
    return false;
  }

  /** Nothing is written where lanes are not ours any more; answers with those. */
  private async write(items: readonly Item[]): Promise<readonly HeldLane[]> {
    const results = items.filter((item) => item.kind !== 'end');
    const released = items.filter((item) => item.kind === 'end' && item.release).map(({ held }) => held);
    const settlement = settlementOf(results);
    for (const held of released) held.ending = true;
    let id: string | undefined;
    try {
      await this.database.transaction(async (tx) => {
        const [own, , lost] = await Promise.all([
          tx.id(),
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
        id = own;
      });
    } catch (error) {
      if (error instanceof LanesLost) return error.lanes;
      // The answer to COMMIT may be lost, and nothing else of it.
      if (id === undefined || !(await this.wasCommitted(id))) throw error;
    }
    this.tell(results, settlement);
    return [];
  }

  private async wasCommitted(id: string): Promise<boolean> {
    for (;;) {
      try {
        const status = await this.database.transactionStatus(id);
        // The server has not noticed yet that its client is gone.
        if (status !== 'in progress') return status === 'committed';
      } catch (error) {
        if (!isDatabaseAway(error)) return false;
      }
      await rest();
    }
  }

  private tell(results: readonly Result[], { holds }: Settlement): void {
    for (const result of results) if (result.kind === 'tried') this.metrics.settled(result);
    if (holds.length > 0) this.onHolds(holds);
  }

  /**
   * What was sent on a lane that is not ours any more is sent again by its next holder. Why, only we know if the database
   * forgot our claim with its last moments before a crash; so it is written down beside what the next holder does.
   */
  private async recordLost(unwritten: readonly Item[]): Promise<void> {
    const tries = unwritten.filter((item) => item.kind === 'tried').map(lostTry);
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

function rest(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, RETRY_MS));
}

function lostTry({ delivery, answer }: Tried): Try {
  const answered = answer.kind === 'answered';
  const error = `${answered ? `answered ${answer.status}` : answer.detail}; ${LANE_LOST}`;
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
