import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { Lease } from '../../lanes/lease.ts';
import type { LeasedRows, PiggybackLease } from '../../lanes/lease-request.ts';
import { Piggyback, PiggybackLeases } from '../../lanes/piggyback.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import { InboxProcessor } from './inbox-processor.ts';
import { InboxQueue } from './inbox-queue.ts';
import { LaneBudget } from './lane-budget.ts';
import { OldSnapshots } from './old-snapshots.ts';
import { Preparations } from './preparations.ts';
import { PrepareLanes } from './prepare-lanes.ts';

/**
 * So long after a lane is released it is looked at again, unless something wakes the worker: sooner, the look would be in
 * the way of what its message set off, the deliveries.
 */
const POLL_AGAIN_MS = 10;

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
  private readonly suspects: Loop;
  /** Lanes somebody wrote to, or that were just released and may have been written to meanwhile. */
  private hinted = new Set<number>();
  /** Some of them were written to, so there is surely work. */
  private written = false;
  private scannedAllAtMs = Number.NEGATIVE_INFINITY;
  private readonly laneBudget: LaneBudget;
  private readonly offers = new PiggybackLeases<ClaimedMessage>();
  private readonly stopping = new AbortController();
  private pollAgain: NodeJS.Timeout | undefined;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly queue: InboxQueue,
    private readonly processor: InboxProcessor,
    private readonly preparations: Preparations,
    private readonly slowLanes: PrepareLanes,
    private readonly snapshots: OldSnapshots,
    wakeups: Wakeups,
    piggyback: Piggyback,
    loops: Loops,
  ) {
    this.laneBudget = new LaneBudget(settings.inboxBatchLanes);
    this.workers = Array.from({ length: settings.inboxWorkers }, (_, index) =>
      loops.create(`inbox-${index + 1}`, settings.inboxPoll, (signal, progressed) =>
        this.pass(signal, progressed),
      ),
    );
    this.suspects = loops.create('inbox-careful', settings.inboxPoll, (signal, progressed) =>
      this.suspectPass(signal, progressed),
    );
    wakeups.on('inbox', (lanes) => this.wake(lanes));
    piggyback.register('inbox', (lanes) => this.offer(lanes));
  }

  onApplicationBootstrap(): void {
    if (!this.settings.roles.includes('inbox')) return;
    for (const loop of [...this.workers, this.suspects]) loop.start();
  }

  /** Stops claiming; what is in flight is finished, what waits for a call outside is given back uncharged. */
  async beforeApplicationShutdown(): Promise<void> {
    this.slowLanes.stop();
    this.stopping.abort();
    clearTimeout(this.pollAgain);
    await Promise.all([...this.workers, this.suspects].map((loop) => loop.stop()));
    await this.offers.allSettled();
    // Only now: a worker may have handed over a lane with its last breath.
    await this.slowLanes.stopped();
  }

  /**
   * For a lone message, if a worker rests: its lane is leased and the message claimed with the commit that stores it, a
   * round trip earlier. Whoever takes it says what came of that commit.
   */
  private offer(lanes: ReadonlySet<number>): PiggybackLease<ClaimedMessage> | undefined {
    const resting = this.workers.filter((worker) => worker.isIdle).length;
    if (resting <= this.offers.size || this.stopping.signal.aborted) return undefined;
    const maxRows = this.settings.inboxBatchMessages;
    const piggyback = this.queue.lanes.piggyback([...lanes], { maxLanes: lanes.size, maxRows });
    return this.offers.track(piggyback, (leased) => this.workDirectly(leased));
  }

  /** As a worker would; what goes wrong has been told then. */
  private async workDirectly(leased: LeasedRows<ClaimedMessage>): Promise<void> {
    const { lease } = leased;
    const lanes = [...lease.lanes];
    const work = () => this.work(leased, performance.now(), this.stopping.signal, () => undefined);
    await this.abandonOnFailure(lease, work).catch(() => undefined);
    for (const lane of lanes) this.hinted.add(lane);
    if (this.stopping.signal.aborted) return;
    if (lease.more) return this.wakeOne();
    this.pollAgain ??= setTimeout(() => {
      this.pollAgain = undefined;
      this.wakeOne();
    }, POLL_AGAIN_MS);
  }

  private wake(lanes: Iterable<number>): void {
    let known = false;
    for (const lane of lanes) {
      this.hinted.add(lane);
      known = true;
    }
    this.written ||= known;
    if (!known) this.scannedAllAtMs = Number.NEGATIVE_INFINITY;
    this.wakeOne();
  }

  /** One resting worker is enough. If none rests, one goes on at once: it may be just about to. */
  private wakeOne(): void {
    (this.workers.find((worker) => worker.isIdle) ?? this.workers[0]!).wake();
  }

  private async pass(signal: AbortSignal, progressed: () => void): Promise<Next> {
    const maxLanes = await this.lanesToTake();
    const hints = this.hinted;
    this.hinted = new Set();
    const everywhere = this.mustScanAll(hints, maxLanes);
    const quick = this.written;
    this.written = false;
    const askedAtMs = performance.now();
    const leased = await this.queue.lanes.lease({
      hint: everywhere ? undefined : [...hints],
      quick,
      maxLanes,
      maxRows: this.settings.inboxBatchMessages,
    });
    if (!leased) return this.hinted.size > 0 ? 'again' : 'idle';
    const { lease } = leased;
    const lanes = [...lease.lanes];
    // A look at all lanes ends when it has enough: those it did not come to are still to be looked at.
    if (everywhere) for (const lane of hints) if (!lease.lanes.has(lane)) this.hinted.add(lane);
    if (everywhere && lanes.length >= maxLanes) this.scannedAllAtMs = Number.NEGATIVE_INFINITY;
    await this.abandonOnFailure(lease, () => this.work(leased, askedAtMs, signal, progressed));
    const again = everywhere || lease.more || this.hinted.size > 0;
    // There may be more by now, and others saw the lanes as taken.
    for (const lane of lanes) this.hinted.add(lane);
    return again ? 'again' : { afterMs: POLL_AGAIN_MS };
  }

  /** While nothing can be cleaned up, each lane of a claim costs more than the others' company is worth. */
  private async lanesToTake(): Promise<number> {
    const { lanes, backlog } = this.laneBudget;
    const few = backlog && lanes > FEW_LANES && (await this.snapshots.any());
    return few ? FEW_LANES : lanes;
  }

  /** Lanes written to, if they are few; but every so often all of them, for what nobody announced. */
  private mustScanAll(hints: ReadonlySet<number>, maxLanes: number): boolean {
    const now = performance.now();
    const few = hints.size > 0 && hints.size <= maxLanes;
    if (few && now - this.scannedAllAtMs <= this.settings.inboxPoll) return false;
    this.scannedAllAtMs = now;
    return true;
  }

  private async work(
    { lease, rows: first }: LeasedRows<ClaimedMessage>,
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
      await this.handle(lease, rows, progressed);
      handlingMs += performance.now() - beganAtMs;
      if (!lease.more || signal.aborted || performance.now() > until || lease.lanes.size === 0) break;
      rows = await this.queue.lanes.claim(lease, most);
    }
    const totalMs = performance.now() - askedAtMs;
    this.laneBudget.adapt({ askingMs: totalMs - handlingMs, totalMs, full: first.length >= most });
    await this.queue.lanes.release(lease);
  }

  private async handle(lease: Lease, rows: readonly ClaimedMessage[], progressed: () => void): Promise<void> {
    const slow = new Set(rows.filter((row) => this.preparations.needed(row)).map(({ lane }) => lane));
    for (const lane of slow)
      this.slowLanes.take(
        lease,
        lane,
        rows.filter((row) => row.lane === lane),
      );
    const messages = slow.size ? rows.filter(({ lane }) => !slow.has(lane)) : rows;
    if (messages.length > 0)
      await this.processor.process({ lease, messages, prepared: new Map(), last: !lease.more, progressed });
  }

  /** A lane whose last holders died, one message at a time, until those are through that they had in their hands. */
  private async suspectPass(signal: AbortSignal, progressed: () => void): Promise<Next> {
    const leased = await this.queue.lanes.leaseSuspect();
    if (!leased) return 'idle';
    const { lease } = leased;
    const lanes = [...lease.lanes];
    await this.abandonOnFailure(lease, async () => {
      let rows = leased.rows;
      let suspects = true;
      while (rows.length > 0 && suspects && lease.lanes.size > 0) {
        await this.slowLanes.handle(lease, rows);
        progressed();
        suspects = rows[0]!.position < lease.suspectsUpTo;
        if (suspects && signal.aborted) await this.queue.lanes.giveBack(lease);
        else if (suspects) rows = await this.queue.lanes.claim(lease, 1);
      }
      await this.queue.lanes.release(lease);
    });
    // The rest of the lane is for those who are in a hurry.
    this.wake(lanes);
    return 'again';
  }

  /** Something that is no message's fault for all we know (the database is away): nobody is charged for it at first. */
  private async abandonOnFailure(lease: Lease, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const lanes = lease.lanes.size;
      const freed = await this.queue.lanes.abandon(lease, error);
      this.log.warn({ event: 'inbox.abandoned', lanes, freed, error }, 'lanes were given up');
      throw error;
    }
  }
}
