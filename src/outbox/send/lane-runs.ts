import { Inject, Injectable } from '@nestjs/common';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Admission } from '../admit/admission.ts';
import { RunSizes } from '../claim/claim-sizes.ts';
import type { LeasedLane } from '../claim/leased-lane.ts';
import { LeasedLanes } from '../claim/leased-lanes.ts';
import { type ClaimedDelivery, ClaimQueue, OutboxQueue } from '../claim/outbox-queue.ts';
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
    private readonly lanes: LeasedLanes,
    private readonly claims: ClaimQueue,
    private readonly admission: Admission,
    private readonly sender: LaneSender,
    private readonly results: ResultWriter,
    private readonly sizes: RunSizes,
  ) {}

  /** Resolves when the lane is no longer leased. */
  start(leased: LeasedLane, rows: readonly ClaimedDelivery[]): Promise<void> {
    this.lanes.add(leased);
    const run = this.runUntilReleased(leased, rows);
    this.running.add(run);
    return run.finally(() => this.running.delete(run));
  }

  async allEnded(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running);
  }

  /** Claim → send → settle, until the lane is empty, its time is up, or it has to stop. */
  private async runUntilReleased(leased: LeasedLane, rows: readonly ClaimedDelivery[]): Promise<void> {
    try {
      let claimed = rows;
      while (await this.sendAndSettle(leased, claimed)) claimed = await this.claims.next(leased);
    } catch (error) {
      this.log.warn(
        { event: 'outbox.claim-failed', lane: leased.lane, error },
        'claiming more deliveries failed; the lane is given back',
      );
      await this.giveBack(leased);
    }
    this.lanes.drop(leased);
  }

  /** Returns whether to claim more; if not, the lane was released with the transaction that wrote its results. */
  private async sendAndSettle(leased: LeasedLane, rows: readonly ClaimedDelivery[]): Promise<boolean> {
    const startedAtMs = performance.now();
    const sentAll = await this.sender.sendAll(leased, rows);
    const nowMs = performance.now();
    const mayHaveMore = sentAll && rows.length >= leased.maxRows;
    const goesOn =
      mayHaveMore && nowMs < leased.untilMs && !leased.probe && this.admission.open(leased) !== undefined;
    if (mayHaveMore) leased.maxRows = this.sizes.next(leased.listener, leased.maxRows, nowMs - startedAtMs);
    if (!sentAll) this.sizes.forget(leased.listener);
    await this.results.end(leased, !goesOn);
    return goesOn && !leased.lost;
  }

  /** After a claim that failed, and may have been committed nevertheless: retried while the lane is certainly leased. */
  private async giveBack(leased: LeasedLane): Promise<void> {
    this.lanes.drop(leased);
    while (!leased.lost && performance.now() < leased.safeUntilMs) {
      try {
        return await this.queue.lanes.giveBack({ token: leased.token, lanes: new Set([leased.lane]) });
      } catch {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }
}
