import { Inject, Injectable } from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import type { Transaction } from '../../database/transaction.ts';
import type { LaneLeases } from '../../lanes/lane-leases.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { HeldLane } from './held-lane.ts';
import { OutboxQueue } from './outbox-queue.ts';

const RETRY_MS = 500;

/** The lanes this replica holds, and its word on each: renewed while they are here, and no longer. */
@Injectable()
export class HeldLanes {
  private readonly lanes = new Map<number, HeldLane>();
  /** How many of each listener. */
  private readonly counts = new Map<number, number>();
  private readonly renewing: Loop;
  private readonly leases: LaneLeases;

  constructor(
    @Inject(LOG) private readonly log: Log,
    queue: OutboxQueue,
    private readonly metrics: LaneMetrics,
    loops: Loops,
  ) {
    this.leases = queue.lanes.leases;
    this.renewing = loops.create('outbox-leases', this.leases.leaseMs / 4, () => this.renewAll());
  }

  start(): void {
    this.renewing.start();
  }

  async stop(): Promise<void> {
    await this.renewing.stop();
  }

  get size(): number {
    return this.lanes.size;
  }

  has(lane: number): boolean {
    return this.lanes.has(lane);
  }

  countOf(listener: number): number {
    return this.counts.get(listener) ?? 0;
  }

  add(held: HeldLane): void {
    this.lanes.set(held.lane, held);
    this.counts.set(held.listener, this.countOf(held.listener) + 1);
  }

  /** From here on its lease ends by itself, unless it was released. */
  drop(held: HeldLane): void {
    if (this.lanes.get(held.lane) !== held) return;
    this.lanes.delete(held.lane);
    this.counts.set(held.listener, this.countOf(held.listener) - 1);
  }

  /** Whether the lane is ours for as long as a call may take. */
  coversNow({ lost, safeUntilMs }: HeldLane, callMs: number): boolean {
    return !lost && performance.now() + callMs <= safeUntilMs;
  }

  /**
   * The same; renews the lease if need be. A replica that was frozen, or cut off from the database, sends nothing on a
   * lane that another one may be sending on.
   */
  async covers(held: HeldLane, callMs: number, stopping: AbortSignal): Promise<boolean> {
    while (!held.lost && !this.coversNow(held, callMs)) {
      if (stopping.aborted) return false;
      try {
        await this.renew([held]);
      } catch {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
    return !held.lost;
  }

  /** Locks them until the transaction ends; answers with those that are not ours any more. */
  fence(helds: readonly HeldLane[], tx: Transaction): Promise<HeldLane[]> {
    return this.leases.fence(helds, tx);
  }

  /** In a transaction that has fenced them. */
  release(helds: readonly HeldLane[], tx: Transaction): Promise<void> {
    return this.leases.release(helds, tx);
  }

  lose(helds: readonly HeldLane[]): void {
    for (const held of helds) {
      held.lost = true;
      this.drop(held);
    }
    this.metrics.leasesLost('outbox', helds.length);
    this.log.warn(
      { event: 'outbox.lease-lost', lanes: helds.map(({ lane }) => lane) },
      'another replica took over; it may send again what was in flight',
    );
  }

  private async renewAll(): Promise<Next> {
    if (this.lanes.size > 0) await this.renew([...this.lanes.values()]);
    return 'idle';
  }

  private async renew(helds: readonly HeldLane[]): Promise<void> {
    const askedAtMs = performance.now();
    const gone = new Set(await this.leases.renew(helds));
    for (const held of helds) if (!gone.has(held)) held.safeUntilMs = askedAtMs + this.leases.leaseMs;
    const lost = [...gone].filter((held) => !held.ending && !held.lost);
    if (lost.length > 0) this.lose(lost);
  }
}
