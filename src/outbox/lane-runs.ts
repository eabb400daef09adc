import { Inject, Injectable } from '@nestjs/common';
import type { Listener } from '../listeners/listener.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { Admission } from './admission.ts';
import type { ClaimedDelivery, MessageContent } from './claimed-delivery.ts';
import { Claims } from './claims.ts';
import { Conclusions } from './conclusions.ts';
import { Contents } from './contents.ts';
import { Courier } from './courier.ts';
import type { HeldLane } from './held-lane.ts';
import { HeldLanes } from './held-lanes.ts';
import { runLane } from './lane-run.ts';
import { OutboxQueue } from './outbox-queue.ts';
import { RunSizes } from './run-sizes.ts';
import { outcomeOf } from './sending/outcome.ts';
import { Settling } from './settling.ts';

const RETRY_MS = 1_000;

/** Deliveries of one lane that were claimed together; fewer than were asked for: there are no more. */
interface Run {
  readonly rows: readonly ClaimedDelivery[];
  readonly asked: number;
}

type Ahead = (Run & { readonly failed: false }) | { readonly failed: true; readonly error: unknown };

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
    private readonly claims: Claims,
    private readonly contents: Contents,
    private readonly admission: Admission,
    private readonly courier: Courier,
    private readonly conclusions: Conclusions,
    private readonly settling: Settling,
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
      await this.runAfterRun(held, rows);
    } catch (error) {
      this.log.warn({ event: 'outbox.claim-failed', lane: held.lane, error }, 'its lane is given back');
      await this.giveBack(held);
    }
    this.lanes.drop(held);
    this.onReleased(held);
  }

  /**
   * Until there is no more, or its time is over: then the lane is released, together with what is written of it. Where the
   * receiver is quick, a run is claimed while the one before it is sent, and written while the next one is: one that
   * waits for both between two runs sends nothing for a third of its time (measured with one that answers at once).
   */
  private async runAfterRun(held: HeldLane, first: readonly ClaimedDelivery[]): Promise<void> {
    let run = { rows: first, asked: held.mostRows };
    let written = Promise.resolve();
    for (;;) {
      const whole = run.rows.length >= run.asked;
      const ahead = whole && this.mayClaimAhead(held) ? this.claimAhead(held, run.rows) : undefined;
      const through = await this.send(held, run);
      if (ahead !== undefined) {
        const next = await ahead;
        // At most one run is sent and not written.
        await written;
        written = this.settling.end(held, false);
        if (next.failed) return await this.afterWriting(written, next.error);
        if (next.rows.length > 0 && through && this.mayGoOn(held)) run = next;
        else return await this.leave(held, next.rows);
      } else {
        const goesOn = whole && through && this.isInSlice(held) && this.mayGoOn(held);
        await this.settling.end(held, !goesOn);
        if (!goesOn || held.lost) return;
        held.waitingKeys.clear();
        const asked = held.mostRows;
        run = { rows: await this.claims.next(held, asked, 0), asked };
      }
    }
  }

  /** Answers whether all of them had their turn. */
  private async send(held: HeldLane, { rows, asked }: Run): Promise<boolean> {
    const startedAtMs = performance.now();
    const through = await runLane(held, rows, this.surroundings);
    const tookMs = performance.now() - startedAtMs;
    if (through && rows.length >= asked) held.mostRows = this.sizes.next(held.listener, asked, tookMs);
    if (!through) this.sizes.forget(held.listener);
    return through;
  }

  /** Not while a key waits: of what is claimed then it is not known whether it was before or after that was written. */
  private mayClaimAhead(held: HeldLane): boolean {
    const { mostRows, listener, waitingKeys } = held;
    const quick = mostRows > 1 && this.sizes.isQuick(listener) && waitingKeys.size === 0;
    return quick && this.isInSlice(held) && this.mayGoOn(held);
  }

  /** Never rejects: what is in hand is sent and written first. */
  private claimAhead(held: HeldLane, rows: readonly ClaimedDelivery[]): Promise<Ahead> {
    const asked = held.mostRows;
    const inHand = Math.max(...rows.map(({ position }) => position));
    return this.claims.next(held, asked, inHand).then(
      (claimed) => ({ rows: claimed, asked, failed: false }) as const,
      (error: unknown) => ({ failed: true, error }) as const,
    );
  }

  private isInSlice({ untilMs }: HeldLane): boolean {
    return performance.now() < untilMs;
  }

  private mayGoOn(held: HeldLane): boolean {
    return !held.probe && this.admission.open(held) !== undefined;
  }

  private async afterWriting(written: Promise<void>, error: unknown): Promise<never> {
    await written;
    throw error;
  }

  /** What was claimed ahead is as it was. */
  private async leave(held: HeldLane, rows: readonly ClaimedDelivery[]): Promise<void> {
    for (const delivery of rows) {
      const kind = held.waitingKeys.has(delivery.key) ? 'behind' : 'untouched';
      this.settling.add({ kind, held, delivery });
    }
    await this.settling.end(held, true);
  }

  private readonly surroundings = {
    contentOf: (deliveries: readonly ClaimedDelivery[]) => this.contents.of(deliveries),
    admit: (held: HeldLane) => this.admission.admit(held),
    decline: (held: HeldLane) => this.admission.leave(held, undefined),
    add: (result: Parameters<Settling['add']>[0]) => this.settling.add(result),
    send: (delivery: ClaimedDelivery, content: MessageContent, held: HeldLane, listener: Listener) =>
      this.sendOne(delivery, content, held, listener),
  };

  private async sendOne(
    delivery: ClaimedDelivery,
    content: MessageContent,
    held: HeldLane,
    listener: Listener,
  ) {
    const answer = await this.courier.send(delivery, content, listener);
    const atMs = performance.now();
    const outcome = outcomeOf(answer, listener, { attempt: delivery.attempt, ageMs: delivery.age_ms });
    this.admission.leave(held, outcome);
    const drawing = this.conclusions.draw({ held, delivery, listener, answer, outcome });
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
