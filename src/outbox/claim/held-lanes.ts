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

/** The lanes that this replica holds. Their leases are renewed as long as they are in here. */
@Injectable()
export class HeldLanes {
  private readonly lanes = new Map<number, HeldLane>();
  /** Held lanes per listener. */
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

  /** The lease is no longer renewed and expires, unless it was released. */
  drop(held: HeldLane): void {
    if (this.lanes.get(held.lane) !== held) return;
    this.lanes.delete(held.lane);
    this.counts.set(held.listener, this.countOf(held.listener) - 1);
  }

  /** Whether the lane is certainly held for as long as a call may take. */
  coversNow({ lost, safeUntilMs }: HeldLane, callMs: number): boolean {
    return !lost && performance.now() + callMs <= safeUntilMs;
  }

  /**
   * The same, renewing the lease if necessary. A replica that was frozen, or cut off from the database, must not send on a
   * lane that another replica may be sending on.
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

  /** Locks the lanes until the transaction ends; returns those that this replica no longer holds. */
  fence(helds: readonly HeldLane[], tx: Transaction): Promise<HeldLane[]> {
    return this.leases.fence(helds, tx);
  }

  /** In a transaction that has fenced the lanes. */
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
    const requestedAtMs = performance.now();
    const taken = new Set(await this.leases.renew(helds));
    for (const held of helds) if (!taken.has(held)) held.safeUntilMs = requestedAtMs + this.leases.leaseMs;
    const lost = [...taken].filter((held) => !held.ending && !held.lost);
    if (lost.length > 0) this.lose(lost);
  }
}
