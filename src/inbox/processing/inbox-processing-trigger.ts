import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { Along, Leased } from '../../lanes/leased.ts';
import { Offers, Piggyback } from '../../lanes/offers.ts';
import type { Tenure } from '../../lanes/tenure.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Breadth } from './breadth.ts';
import type { ClaimedMessage } from './claimed-message.ts';
import { InboxProcessor } from './inbox-processor.ts';
import { InboxQueue } from './inbox-queue.ts';
import { OldSnapshots } from './old-snapshots.ts';
import { Preparations } from './preparations.ts';
import { SlowLanes } from './slow-lanes.ts';

/**
 * So long after a lane is released it is looked at again, unless something wakes the worker: sooner, the look would be in
 * the way of what its message set off, the deliveries.
 */
const LOOK_AGAIN_MS = 10;

/**
 * Lanes are kept at least this many times as long as it took to lease them. Where many replicas share few cores a lease and a
 * batch each take longer than a slice, and every batch would pay for a lease and a release of its own.
 */
const LEASE_WORTH = 4;

/** Lanes at a time while an old snapshot is open; measured in docs/decisions/0009. */
const FEW_LANES = 2;

/**
 * D2: on every replica, any number of workers, each: lease lanes, claim rows, process, claim again while there is work
 * and its slice lasts, release. A worker never overlaps itself; two workers never have the same lane.
 */
@Injectable()
export class InboxProcessingTrigger implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly workers: Loop[];
  /** One for the whole process, so that a message that kills it was alone in careful hands. */
  private readonly careful: Loop;
  /** Lanes somebody wrote to, or that were just released and may have been written to meanwhile. */
  private hinted = new Set<number>();
  /** Some of them were written to, so there is surely work. */
  private written = false;
  private lookedEverywhereAtMs = Number.NEGATIVE_INFINITY;
  private readonly breadth: Breadth;
  private readonly offers = new Offers<ClaimedMessage>();
  private readonly stopping = new AbortController();
  private lookAgain: NodeJS.Timeout | undefined;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly queue: InboxQueue,
    private readonly processor: InboxProcessor,
    private readonly preparations: Preparations,
    private readonly slowLanes: SlowLanes,
    private readonly snapshots: OldSnapshots,
    wakeups: Wakeups,
    piggyback: Piggyback,
    loops: Loops,
  ) {
    this.breadth = new Breadth(settings.inboxBatchLanes);
    this.workers = Array.from({ length: settings.inboxWorkers }, (_, index) =>
      loops.create(`inbox-${index + 1}`, settings.inboxPoll, (signal, progressed) =>
        this.pass(signal, progressed),
      ),
    );
    this.careful = loops.create('inbox-careful', settings.inboxPoll, (signal, progressed) =>
      this.carefulPass(signal, progressed),
    );
    wakeups.on('inbox', (lanes) => this.wake(lanes));
    piggyback.serve('inbox', (lanes) => this.offer(lanes));
  }

  onApplicationBootstrap(): void {
    if (!this.settings.roles.includes('inbox')) return;
    for (const loop of [...this.workers, this.careful]) loop.start();
  }

  /** Stops claiming; what is in flight is finished, what waits for a call outside is given back uncharged. */
  async beforeApplicationShutdown(): Promise<void> {
    this.slowLanes.stop();
    this.stopping.abort();
    clearTimeout(this.lookAgain);
    await Promise.all([...this.workers, this.careful].map((loop) => loop.stop()));
    await this.offers.allOver();
    // Only now: a worker may have handed over a lane with its last breath.
    await this.slowLanes.stopped();
  }

  /**
   * For a lone message, if a worker rests: its lane is leased and the message claimed with the commit that stores it, a
   * round trip earlier. Whoever takes it says what came of that commit.
   */
  private offer(lanes: ReadonlySet<number>): Along<ClaimedMessage> | undefined {
    const resting = this.workers.filter((worker) => worker.isResting).length;
    if (resting <= this.offers.size || this.stopping.signal.aborted) return undefined;
    const mostRows = this.settings.inboxBatchMessages;
    const along = this.queue.lanes.along([...lanes], { mostLanes: lanes.size, mostRows });
    return this.offers.make(along, (leased) => this.workDirectly(leased));
  }

  /** As a worker would; what goes wrong has been told then. */
  private async workDirectly(leased: Leased<ClaimedMessage>): Promise<void> {
    const { tenure } = leased;
    const lanes = [...tenure.lanes];
    const work = () => this.work(leased, performance.now(), this.stopping.signal, () => undefined);
    await this.orAbandon(tenure, work).catch(() => undefined);
    for (const lane of lanes) this.hinted.add(lane);
    if (this.stopping.signal.aborted) return;
    if (tenure.more) return this.wakeOne();
    this.lookAgain ??= setTimeout(() => {
      this.lookAgain = undefined;
      this.wakeOne();
    }, LOOK_AGAIN_MS);
  }

  private wake(lanes: Iterable<number>): void {
    let known = false;
    for (const lane of lanes) {
      this.hinted.add(lane);
      known = true;
    }
    this.written ||= known;
    if (!known) this.lookedEverywhereAtMs = Number.NEGATIVE_INFINITY;
    this.wakeOne();
  }

  /** One resting worker is enough. If none rests, one goes on at once: it may be just about to. */
  private wakeOne(): void {
    (this.workers.find((worker) => worker.isResting) ?? this.workers[0]!).wake();
  }

  private async pass(signal: AbortSignal, progressed: () => void): Promise<Next> {
    const mostLanes = await this.lanesToTake();
    const hints = this.hinted;
    this.hinted = new Set();
    const everywhere = this.mustLookEverywhere(hints, mostLanes);
    const quick = this.written;
    this.written = false;
    const askedAtMs = performance.now();
    const leased = await this.queue.lanes.lease({
      hint: everywhere ? undefined : [...hints],
      quick,
      mostLanes,
      mostRows: this.settings.inboxBatchMessages,
    });
    if (!leased) return this.hinted.size > 0 ? 'again' : 'idle';
    const { tenure } = leased;
    const lanes = [...tenure.lanes];
    // A look at all lanes ends when it has enough: those it did not come to are still to be looked at.
    if (everywhere) for (const lane of hints) if (!tenure.lanes.has(lane)) this.hinted.add(lane);
    if (everywhere && lanes.length >= mostLanes) this.lookedEverywhereAtMs = Number.NEGATIVE_INFINITY;
    await this.orAbandon(tenure, () => this.work(leased, askedAtMs, signal, progressed));
    const again = everywhere || tenure.more || this.hinted.size > 0;
    // There may be more by now, and others saw the lanes as taken.
    for (const lane of lanes) this.hinted.add(lane);
    return again ? 'again' : { afterMs: LOOK_AGAIN_MS };
  }

  /** While nothing can be cleaned up, each lane of a claim costs more than the others' company is worth. */
  private async lanesToTake(): Promise<number> {
    const { lanes, backlog } = this.breadth;
    const few = backlog && lanes > FEW_LANES && (await this.snapshots.any());
    return few ? FEW_LANES : lanes;
  }

  /** Lanes written to, if they are few; but every so often all of them, for what nobody announced. */
  private mustLookEverywhere(hints: ReadonlySet<number>, mostLanes: number): boolean {
    const now = performance.now();
    const few = hints.size > 0 && hints.size <= mostLanes;
    if (few && now - this.lookedEverywhereAtMs <= this.settings.inboxPoll) return false;
    this.lookedEverywhereAtMs = now;
    return true;
  }

  private async work(
    { tenure, rows: first }: Leased<ClaimedMessage>,
    askedAtMs: number,
    signal: AbortSignal,
    progressed: () => void,
  ): Promise<void> {
    const most = this.settings.inboxBatchMessages;
    const leasedAtMs = performance.now();
    const until = leasedAtMs + Math.max(this.settings.inboxSlice, (leasedAtMs - askedAtMs) * LEASE_WORTH);
    let handlingMs = 0;
    let rows = first;
    while (rows.length > 0) {
      const beganAtMs = performance.now();
      await this.handle(tenure, rows, progressed);
      handlingMs += performance.now() - beganAtMs;
      if (!tenure.more || signal.aborted || performance.now() > until || tenure.lanes.size === 0) break;
      rows = await this.queue.lanes.claim(tenure, most);
    }
    const totalMs = performance.now() - askedAtMs;
    this.breadth.adapt({ askingMs: totalMs - handlingMs, totalMs, full: first.length >= most });
    await this.queue.lanes.release(tenure);
  }

  private async handle(
    tenure: Tenure,
    rows: readonly ClaimedMessage[],
    progressed: () => void,
  ): Promise<void> {
    const slow = new Set(rows.filter((row) => this.preparations.needed(row)).map(({ lane }) => lane));
    for (const lane of slow)
      this.slowLanes.take(
        tenure,
        lane,
        rows.filter((row) => row.lane === lane),
      );
    const messages = slow.size ? rows.filter(({ lane }) => !slow.has(lane)) : rows;
    if (messages.length > 0)
      await this.processor.process({ tenure, messages, prepared: new Map(), last: !tenure.more, progressed });
  }

  /** A lane whose last holders died, one message at a time, until those are through that they had in their hands. */
  private async carefulPass(signal: AbortSignal, progressed: () => void): Promise<Next> {
    const leased = await this.queue.lanes.leaseSuspect();
    if (!leased) return 'idle';
    const { tenure } = leased;
    const lanes = [...tenure.lanes];
    await this.orAbandon(tenure, async () => {
      let rows = leased.rows;
      let suspects = true;
      while (rows.length > 0 && suspects && tenure.lanes.size > 0) {
        await this.slowLanes.handle(tenure, rows);
        progressed();
        suspects = rows[0]!.position < tenure.suspectsUpTo;
        if (suspects && signal.aborted) await this.queue.lanes.giveBack(tenure);
        else if (suspects) rows = await this.queue.lanes.claim(tenure, 1);
      }
      await this.queue.lanes.release(tenure);
    });
    // The rest of the lane is for those who are in a hurry.
    this.wake(lanes);
    return 'again';
  }

  /** Something that is no message's fault for all we know (the database is away): nobody is charged for it at first. */
  private async orAbandon(tenure: Tenure, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const lanes = tenure.lanes.size;
      const freed = await this.queue.lanes.abandon(tenure, error);
      this.log.warn({ event: 'inbox.abandoned', lanes, freed, error }, 'lanes were given up');
      throw error;
    }
  }
}
