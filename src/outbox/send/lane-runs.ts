import { Inject, Injectable } from '@nestjs/common';
import type { Listener } from '../../listeners/listener.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Admission } from '../admit/admission.ts';
import { ClaimQueue } from '../claim/claim-queue.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/claimed-delivery.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import { HeldLanes } from '../claim/held-lanes.ts';
import { OutboxQueue } from '../claim/outbox-queue.ts';
import { RunSizes } from '../claim/run-sizes.ts';
import { MessageContents } from '../fan-out/message-contents.ts';
import { ListenerPolicy } from '../health/listener-policy.ts';
import { ResultWriter } from '../settle/result-writer.ts';
import { DeliverySender } from './delivery-sender.ts';
import { runLane } from './lane-run.ts';
import { outcomeOf } from './outcome.ts';

const RETRY_MS = 1_000;

/** The lanes that are being sent from: every lane for itself, from its lease to its release, whatever happens. */
@Injectable()
export class LaneRuns {
  /** Told when a lane is not ours any more: there may be more in it. */
  onReleased: (held: HeldLane) => void = () => undefined;
  private readonly running = new Set<Promise<void>>();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly queue: OutboxQueue,
    private readonly lanes: HeldLanes,
    private readonly claims: ClaimQueue,
    private readonly contents: MessageContents,
    private readonly admission: Admission,
    private readonly sender: DeliverySender,
    private readonly policy: ListenerPolicy,
    private readonly results: ResultWriter,
    private readonly sizes: RunSizes,
  ) {}

  start(held: HeldLane, rows: readonly ClaimedDelivery[]): Promise<void> {
    const work = this.runUntilReleased(held, rows);
    this.running.add(work);
    return work.finally(() => this.running.delete(work));
  }

  async allEnded(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running);
  }

  private async runUntilReleased(held: HeldLane, rows: readonly ClaimedDelivery[]): Promise<void> {
    try {
      let claimed = rows;
      while (await this.run(held, claimed)) claimed = await this.claims.next(held);
    } catch (error) {
      this.log.warn({ event: 'outbox.claim-failed', lane: held.lane, error }, 'its lane is given back');
      await this.giveBack(held);
    }
    this.lanes.drop(held);
    this.onReleased(held);
  }

  /** Answers whether to claim more; else the lane is released, together with what is written of it. */
  private async run(held: HeldLane, rows: readonly ClaimedDelivery[]): Promise<boolean> {
    const startedAtMs = performance.now();
    const through = await runLane(held, rows, this.deps);
    const tookMs = performance.now() - startedAtMs;
    const whole = through && rows.length >= held.maxRows;
    const inSlice = performance.now() < held.untilMs;
    const goesOn = whole && inSlice && !held.probe && this.admission.open(held) !== undefined;
    if (whole) held.maxRows = this.sizes.next(held.listener, held.maxRows, tookMs);
    if (!through) this.sizes.forget(held.listener);
    await this.results.end(held, !goesOn);
    return goesOn && !held.lost;
  }

  private readonly deps = {
    contentOf: (deliveries: readonly ClaimedDelivery[]) => this.contents.of(deliveries),
    admit: (held: HeldLane) => this.admission.admit(held),
    decline: (held: HeldLane) => this.admission.leave(held, undefined),
    add: (result: Parameters<ResultWriter['add']>[0]) => this.results.add(result),
    send: (delivery: ClaimedDelivery, content: MessageContent, held: HeldLane, listener: Listener) =>
      this.send(delivery, content, held, listener),
  };

  private async send(delivery: ClaimedDelivery, content: MessageContent, held: HeldLane, listener: Listener) {
    const answer = await this.sender.send(delivery, content, listener);
    const atMs = performance.now();
    const outcome = outcomeOf(answer, listener, { attempt: delivery.attempt, ageMs: delivery.age_ms });
    this.admission.leave(held, outcome);
    const drawing = this.policy.record({ held, delivery, listener, answer, outcome });
    if (drawing !== undefined) await drawing;
    return { answer, outcome, atMs };
  }

  /** After a claim that failed, and may have claimed nevertheless: tried for as long as the lane is surely ours. */
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
