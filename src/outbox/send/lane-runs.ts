import { Inject, Injectable } from '@nestjs/common';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Admission } from '../admit/admission.ts';
import { ClaimQueue } from '../claim/claim-queue.ts';
import type { ClaimedDelivery } from '../claim/claimed-delivery.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import { HeldLanes } from '../claim/held-lanes.ts';
import { OutboxQueue } from '../claim/outbox-queue.ts';
import { RunSizes } from '../claim/run-sizes.ts';
import { ResultWriter } from '../settle/result-writer.ts';
import { LaneSender } from './lane-sender.ts';

const RETRY_MS = 1_000;

/** The lanes that this replica sends on: each has a run of its own, from its lease to its release. */
@Injectable()
export class LaneRuns {
  private readonly running = new Set<Promise<void>>();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly queue: OutboxQueue,
    private readonly lanes: HeldLanes,
    private readonly claims: ClaimQueue,
    private readonly admission: Admission,
    private readonly sender: LaneSender,
    private readonly results: ResultWriter,
    private readonly sizes: RunSizes,
  ) {}

  /** Resolves when the lane is no longer held. */
  start(held: HeldLane, rows: readonly ClaimedDelivery[]): Promise<void> {
    this.lanes.add(held);
    const run = this.runUntilReleased(held, rows);
    this.running.add(run);
    return run.finally(() => this.running.delete(run));
  }

  async allEnded(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running);
  }

  /** Claim → send → settle, until the lane is empty, its time is up, or it has to stop. */
  private async runUntilReleased(held: HeldLane, rows: readonly ClaimedDelivery[]): Promise<void> {
    try {
      let claimed = rows;
      while (await this.sendAndSettle(held, claimed)) claimed = await this.claims.next(held);
    } catch (error) {
      this.log.warn(
        { event: 'outbox.claim-failed', lane: held.lane, error },
        'claiming more deliveries failed; the lane is given back',
      );
      await this.giveBack(held);
    }
    this.lanes.drop(held);
  }

  /** Returns whether to claim more; if not, the lane was released with the transaction that wrote its results. */
  private async sendAndSettle(held: HeldLane, rows: readonly ClaimedDelivery[]): Promise<boolean> {
    const startedAtMs = performance.now();
    const sentAll = await this.sender.sendAll(held, rows);
    const nowMs = performance.now();
    const mayHaveMore = sentAll && rows.length >= held.maxRows;
    const goesOn =
      mayHaveMore && nowMs < held.untilMs && !held.probe && this.admission.open(held) !== undefined;
    if (mayHaveMore) held.maxRows = this.sizes.next(held.listener, held.maxRows, nowMs - startedAtMs);
    if (!sentAll) this.sizes.forget(held.listener);
    await this.results.end(held, !goesOn);
    return goesOn && !held.lost;
  }

  /** After a claim that failed, and may have been committed nevertheless: retried while the lane is certainly held. */
  private async giveBack(held: HeldLane): Promise<void> {
    this.lanes.drop(held);
    while (!held.lost && performance.now() < held.safeUntilMs) {
      try {
        return await this.queue.lanes.giveBack({ token: held.token, lanes: new Set([held.lane]) });
      } catch {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }
}
