import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { LeasedRows, PiggybackLease } from '../../lanes/lane-queue-types.ts';
import type { Lease } from '../../lanes/lease.ts';
import { Piggyback, PiggybackLeases } from '../../lanes/piggyback.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { type ClaimedMessage, InboxQueue } from '../inbox-queue.ts';
import { InboxGate } from './inbox-gate.ts';
import { InboxProcessor } from './inbox-processor.ts';
import { LaneBudget, OldSnapshots } from './lane-budget.ts';
import { Preparations } from './preparations.ts';
import { PrepareLanes } from './prepare-lanes.ts';

/**
 * A released lane is polled again after this time, unless something wakes the worker: an earlier poll would compete with the
 * deliveries that its messages caused.
 */
const POLL_AGAIN_MS = 10;

/** How often a worker checks whether the gate has opened. */
const GATE_POLL_MS = 50;

/**
 * Lanes are leased for at least this many times as long as it took to lease them. Where many replicas share few cores, a lease
 * and a batch each take longer than a slice, and every batch would need a lease and a release of its own.
 */
const LEASE_WORTH = 4;

/** Lanes at a time while an old snapshot is open; measured in docs/decisions/0009. */
const FEW_LANES = 2;

/**
 * The workers of the inbox; what they claim is processed by InboxProcessor.
 *
 * Every replica has any number of workers. Each leases lanes, claims rows, processes them, claims again while there is
 * work and its slice lasts, and releases the lanes. A worker never runs twice at the same time; two workers never own the
 * same lane.
 */
@Injectable()
export class InboxProcessingTrigger implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly workers: Loop[];
  /** One worker for the whole process, so that a message which crashes the process was the only suspect in flight. */
  private readonly suspects: Loop;
  /** Lanes that were written to, or were just released and may have been written to while they were leased. */
  private hinted = new Set<number>();
  /** Some of the hinted lanes were written to, so they have work. */
  private written = false;
  private scannedAllAtMs = Number.NEGATIVE_INFINITY;
  private readonly laneBudget: LaneBudget;
  private readonly piggybacks = new PiggybackLeases<ClaimedMessage>();
  private readonly stopping = new AbortController();
  private pollAgain: NodeJS.Timeout | undefined;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly queue: InboxQueue,
    private readonly processor: InboxProcessor,
    private readonly preparations: Preparations,
    private readonly prepareLanes: PrepareLanes,
    private readonly snapshots: OldSnapshots,
    private readonly gate: InboxGate,
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
    this.suspects = loops.create('inbox-suspects', settings.inboxPoll, (signal, progressed) =>
      this.suspectPass(signal, progressed),
    );
    wakeups.on('inbox', (lanes) => this.wake(lanes));
    piggyback.register('inbox', (lanes) => this.piggybackLease(lanes));
  }

  onApplicationBootstrap(): void {
    if (!this.settings.roles.includes('inbox')) return;
    for (const loop of [...this.workers, this.suspects]) loop.start();
  }

  /** Stops claiming. Batches in flight are finished; messages that wait for `prepare` are given back; no attempt is counted. */
  async beforeApplicationShutdown(): Promise<void> {
    this.prepareLanes.stop();
    this.stopping.abort();
    clearTimeout(this.pollAgain);
    await Promise.all([...this.workers, this.suspects].map((loop) => loop.stop()));
    await this.piggybacks.allSettled();
    // Only now: a worker may have handed over a lane in its final pass.
    await this.prepareLanes.stopped();
  }

  /**
   * For a single new message, if a worker is idle: its lane is leased and the message claimed in the transaction that stores
   * it, one round trip earlier. The writer reports the outcome of that transaction.
   */
  private piggybackLease(lanes: ReadonlySet<number>): PiggybackLease<ClaimedMessage> | undefined {
    const resting = this.workers.filter((worker) => worker.isIdle).length;
    if (resting <= this.piggybacks.size || this.stopping.signal.aborted || this.gate.isClosed)
      return undefined;
    const maxRows = this.settings.inboxBatchMessages;
    const piggyback = this.queue.lanes.piggyback([...lanes], { maxLanes: lanes.size, maxRows });
    return this.piggybacks.track(piggyback, (leased) => this.workDirectly(leased));
  }

  /** Like a worker's pass; an error has been logged by then. */
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

  /** One idle worker is enough. If none is idle, one starts its next pass at once: it may be about to become idle. */
  private wakeOne(): void {
    (this.workers.find((worker) => worker.isIdle) ?? this.workers[0]!).wake();
  }

  private async pass(signal: AbortSignal, progressed: () => void): Promise<Next> {
    if (this.gate.isClosed) return { afterMs: GATE_POLL_MS };
    const maxLanes = await this.lanesToTake();
    const hints = this.hinted;
    this.hinted = new Set();
    const everywhere = this.mustScanAll(hints, maxLanes);
    const quick = this.written;
    this.written = false;
    const startedAtMs = performance.now();
    const leased = await this.queue.lanes.lease({
      hint: everywhere ? undefined : [...hints],
      quick,
      maxLanes,
      maxRows: this.settings.inboxBatchMessages,
    });
    if (!leased) return this.hinted.size > 0 ? 'again' : 'idle';
    const { lease } = leased;
    const lanes = [...lease.lanes];
    // A scan of all lanes ends when it has enough of them: hinted lanes that it did not reach are still to be polled.
    if (everywhere) for (const lane of hints) if (!lease.lanes.has(lane)) this.hinted.add(lane);
    if (everywhere && lanes.length >= maxLanes) this.scannedAllAtMs = Number.NEGATIVE_INFINITY;
    await this.abandonOnFailure(lease, () => this.work(leased, startedAtMs, signal, progressed));
    const again = everywhere || lease.more || this.hinted.size > 0;
    // There may be more work by now, and other workers skipped these lanes while they were leased.
    for (const lane of lanes) this.hinted.add(lane);
    return again ? 'again' : { afterMs: POLL_AGAIN_MS };
  }

  /** While nothing can be vacuumed, each lane of a claim costs more than a fuller batch saves. */
  private async lanesToTake(): Promise<number> {
    const { lanes, backlog } = this.laneBudget;
    const few = backlog && lanes > FEW_LANES && (await this.snapshots.any());
    return few ? FEW_LANES : lanes;
  }

  /** Otherwise only the hinted lanes, if they are few. Once per poll interval all lanes, for writes that were not announced. */
  private mustScanAll(hints: ReadonlySet<number>, maxLanes: number): boolean {
    const now = performance.now();
    const few = hints.size > 0 && hints.size <= maxLanes;
    if (few && now - this.scannedAllAtMs <= this.settings.inboxPoll) return false;
    this.scannedAllAtMs = now;
    return true;
  }

  private async work(
    { lease, rows: first }: LeasedRows<ClaimedMessage>,
    startedAtMs: number,
    signal: AbortSignal,
    progressed: () => void,
  ): Promise<void> {
    const maxRows = this.settings.inboxBatchMessages;
    const leasedAtMs = performance.now();
    const until = leasedAtMs + Math.max(this.settings.inboxSlice, (leasedAtMs - startedAtMs) * LEASE_WORTH);
    let handlingMs = 0;
    let rows = first;
    while (rows.length > 0) {
      const beganAtMs = performance.now();
      await this.process(lease, rows, progressed);
      handlingMs += performance.now() - beganAtMs;
      const isOver = signal.aborted || this.gate.isClosed || performance.now() > until;
      if (!lease.more || isOver || lease.lanes.size === 0) break;
      rows = await this.queue.lanes.claim(lease, maxRows);
    }
    const totalMs = performance.now() - startedAtMs;
    this.laneBudget.adapt({ claimingMs: totalMs - handlingMs, totalMs, full: first.length >= maxRows });
    await this.queue.lanes.release(lease);
  }

  /** Lanes whose messages need `prepare` are handed over; the other messages are processed here. */
  private async process(
    lease: Lease,
    rows: readonly ClaimedMessage[],
    progressed: () => void,
  ): Promise<void> {
    const slow = new Set(rows.filter((row) => this.preparations.needed(row)).map(({ lane }) => lane));
    for (const lane of slow)
      this.prepareLanes.take(
        lease,
        lane,
        rows.filter((row) => row.lane === lane),
      );
    const messages = slow.size ? rows.filter(({ lane }) => !slow.has(lane)) : rows;
    if (messages.length > 0) await this.processor.process({ lease, messages, last: !lease.more, progressed });
  }

  /** A lane whose last owners crashed: one message at a time, until the messages that they had claimed are processed. */
  private async suspectPass(signal: AbortSignal, progressed: () => void): Promise<Next> {
    if (this.gate.isClosed) return { afterMs: GATE_POLL_MS };
    const leased = await this.queue.lanes.leaseSuspect();
    if (!leased) return 'idle';
    const { lease } = leased;
    const lanes = [...lease.lanes];
    await this.abandonOnFailure(lease, async () => {
      let rows = leased.rows;
      let suspects = true;
      while (rows.length > 0 && suspects && lease.lanes.size > 0) {
        // Unlike `this.process`, it waits for `prepare`, and renews the lease meanwhile.
        await this.prepareLanes.process(lease, rows);
        progressed();
        suspects = rows[0]!.position < lease.suspectsUpTo;
        if (suspects && signal.aborted) await this.queue.lanes.giveBack(lease);
        else if (suspects) rows = await this.queue.lanes.claim(lease, 1);
      }
      await this.queue.lanes.release(lease);
    });
    // The rest of the lane is left to the normal workers.
    this.wake(lanes);
    return 'again';
  }

  /** For errors that no message is known to have caused (the database is unreachable): at first no attempt is counted. */
  private async abandonOnFailure(lease: Lease, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const lanes = lease.lanes.size;
      const freed = await this.queue.lanes.abandon(lease, error);
      this.log.warn(
        { event: 'inbox.abandoned', lanes, freed, error },
        'processing of lanes failed; their leases end',
      );
      throw error;
    }
  }
}
