import { Inject, Injectable } from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import type { Transaction } from '../../database/transaction.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import type { LaneLeases } from '../../lanes/lease.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { LeasedLane } from './leased-lane.ts';
import { OutboxQueue } from './outbox-queue.ts';

const RETRY_MS = 500;

/** The lanes that this replica has leased. Their leases are renewed as long as they are in here. */
@Injectable()
export class LeasedLanes {
  private readonly lanes = new Map<number, LeasedLane>();
  /** Leased lanes per listener. */
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

  add(leased: LeasedLane): void {
    this.lanes.set(leased.lane, leased);
    this.counts.set(leased.listener, this.countOf(leased.listener) + 1);
  }

  /** The lease is no longer renewed and expires, unless it was released. */
  drop(leased: LeasedLane): void {
    if (this.lanes.get(leased.lane) !== leased) return;
    this.lanes.delete(leased.lane);
    this.counts.set(leased.listener, this.countOf(leased.listener) - 1);
  }

  /** Whether the lane is certainly leased for as long as a call may take. */
  coversNow({ lost, safeUntilMs }: LeasedLane, callMs: number): boolean {
    return !lost && performance.now() + callMs <= safeUntilMs;
  }

  /**
   * Renews the lease until it covers the call; false: the lane is lost, or the replica is stopping. A replica that was
   * frozen, or cut off from the database, must not send on a lane that another replica may be sending on.
   */
  async renewUntilCovered(leased: LeasedLane, callMs: number, stopping: AbortSignal): Promise<boolean> {
    while (!leased.lost && !this.coversNow(leased, callMs)) {
      if (stopping.aborted) return false;
      try {
        await this.renew([leased]);
      } catch {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
    return !leased.lost;
  }

  /** Locks the lanes until the transaction ends; returns those that this replica has lost. */
  fence(leased: readonly LeasedLane[], tx: Transaction): Promise<LeasedLane[]> {
    return this.leases.fence(leased, tx);
  }

  /** In a transaction that has fenced the lanes. */
  release(leased: readonly LeasedLane[], tx: Transaction): Promise<void> {
    return this.leases.release(leased, tx);
  }

  lose(leased: readonly LeasedLane[]): void {
    for (const one of leased) {
      one.lost = true;
      this.drop(one);
    }
    this.metrics.leasesLost('outbox', leased.length);
    this.log.warn(
      { event: 'outbox.lease-lost', lanes: leased.map(({ lane }) => lane) },
      'another replica took over; it may send again what was in flight',
    );
  }

  private async renewAll(): Promise<Next> {
    if (this.lanes.size > 0) await this.renew([...this.lanes.values()]);
    return 'idle';
  }

  private async renew(leased: readonly LeasedLane[]): Promise<void> {
    const requestedAtMs = performance.now();
    const notRenewed = new Set(await this.leases.renew(leased));
    for (const one of leased) if (!notRenewed.has(one)) one.safeUntilMs = requestedAtMs + this.leases.leaseMs;
    const lost = [...notRenewed].filter((one) => !one.ending && !one.lost);
    if (lost.length > 0) this.lose(lost);
  }
}
