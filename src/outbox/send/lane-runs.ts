import { Inject, Injectable } from '@nestjs/common';
import type { Listener } from '../../listeners/listener.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Admission } from '../admit/admission.ts';
import { RunSizes } from '../claim/claim-sizes.ts';
import type { LeasedLane } from '../claim/leased-lane.ts';
import { LeasedLanes } from '../claim/leased-lanes.ts';
import { type ClaimedDelivery, ClaimQueue, type MessageContent, OutboxQueue } from '../claim/outbox-queue.ts';
import { inParts, MessageContents } from '../fan-out/message-contents.ts';
import type { Result } from '../settle/delivery-result.ts';
import { ResultWriter } from '../settle/result-writer.ts';
import { DeliverySender } from './delivery-sender.ts';
import type { Outcome } from './outcome.ts';

const RETRY_MS = 1_000;

/**
 * Sends the claimed deliveries of one lane: load → admit → send → hand the result to the writer. One after the other, so
 * the deliveries of a key keep their order and a lane has one delivery in flight. When a delivery has to wait, the later
 * ones of its key wait behind it; other keys continue.
 */
@Injectable()
export class LaneSender {
  constructor(
    private readonly contents: MessageContents,
    private readonly admission: Admission,
    private readonly sender: DeliverySender,
    private readonly results: ResultWriter,
  ) {}

  /** Returns whether it got through all of them; false: it had to stop, and the rest is put back as it was. */
  async sendAll(leased: LeasedLane, deliveries: readonly ClaimedDelivery[]): Promise<boolean> {
    const waitingKeys = new Set<string>();
    let stopped = false;
    for (const part of inParts(deliveries)) {
      const sendable = part.filter(({ key }) => !waitingKeys.has(key));
      const contents = stopped || sendable.length === 0 ? undefined : await this.load(sendable);
      for (const delivery of part) {
        if (waitingKeys.has(delivery.key)) this.results.add({ kind: 'behind', leased, delivery });
        else if (stopped || !contents) {
          stopped = true;
          this.results.add({ kind: 'untouched', leased, delivery });
        } else {
          const result = await this.sendOne(leased, delivery, contents.get(delivery.message));
          this.results.add(result);
          stopped = result.kind === 'untouched';
          if (keyWaits(result)) waitingKeys.add(delivery.key);
        }
      }
    }
    return !stopped;
  }

  /** Undefined: the database is away. A delivery that cannot be read cannot be sent, and loses nothing by waiting. */
  private async load(
    deliveries: readonly ClaimedDelivery[],
  ): Promise<ReadonlyMap<number, MessageContent> | undefined> {
    try {
      return await this.contents.of(deliveries);
    } catch {
      return undefined;
    }
  }

  private async sendOne(
    leased: LeasedLane,
    delivery: ClaimedDelivery,
    content: MessageContent | undefined,
  ): Promise<Result> {
    const admitted = this.admission.admit(leased);
    const listener = admitted instanceof Promise ? await admitted : admitted;
    if (!listener) return { kind: 'untouched', leased, delivery };
    const reason = content ? usedUp(delivery, listener) : 'its message was removed before it could be sent';
    if (reason === undefined) return await this.sender.send(leased, delivery, content!, listener);
    this.admission.leave(leased, undefined);
    return { kind: 'unsendable', leased, delivery, listener, reason };
  }
}

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

/** Attempts are counted by the claim, so only crashes of replicas lead beyond the last one of the schedule. */
function usedUp({ attempt }: ClaimedDelivery, { retryScheduleMs }: Listener): string | undefined {
  if (attempt <= retryScheduleMs.length + 1) return undefined;
  return `its replica died while sending it, ${attempt - 1} times in a row`;
}

function keyWaits(result: Result): boolean {
  if (result.kind === 'untouched') return false;
  if (result.kind === 'unsendable') return result.listener.onDead === 'hold';
  if (result.kind === 'behind') return true;
  return outcomeHolds(result.outcome, result.listener);
}

function outcomeHolds(outcome: Outcome, { onDead, rateLimit }: Listener): boolean {
  if (outcome.kind === 'retry' || outcome.kind === 'pause') return true;
  return (outcome.kind === 'dead' && onDead === 'hold') || rateLimit?.perKey !== undefined;
}
