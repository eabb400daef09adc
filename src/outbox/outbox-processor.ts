import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import type { Loop, Next } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { groupBy } from '../database/group-by.ts';
import type { LeasedRows, PiggybackLease } from '../lanes/lane-queue-types.ts';
import { Piggyback, PiggybackLeases } from '../lanes/piggyback.ts';
import { Wakeups } from '../lanes/wakeups.ts';
import { listenerOfLane } from '../listeners/listener.ts';
import { Listeners } from '../listeners/listeners.ts';
import { Admission } from './admit/admission.ts';
import { Draining } from './admit/draining.ts';
import { Gates } from './admit/gates.ts';
import { Probes } from './admit/probes.ts';
import { fairShare, RunSizes } from './claim/claim-sizes.ts';
import { HoldTimers } from './claim/hold-timers.ts';
import { type LeasedLane, leasedLane } from './claim/leased-lane.ts';
import { LeasedLanes } from './claim/leased-lanes.ts';
import { byLane, type ClaimedDelivery, OutboxQueue } from './claim/outbox-queue.ts';
import { OutboxStore } from './outbox-store.ts';
import { LaneRuns } from './send/lane-runs.ts';

/** Between two scans of all lanes, however soon a hold or a gate is due. */
const MIN_SCAN_INTERVAL_MS = 20;
/** Lanes leased with one commit: a batch that writes to more lanes should not be slowed down before its COMMIT. */
const MAX_PIGGYBACK_LANES = 8;

/**
 * The counterpart of InboxProcessingTrigger, not of InboxProcessor: the work is done by LaneRuns and LaneSender.
 *
 * Finds lanes with deliveries to send, leases them and starts a run for each, independently of the inbox. Every lane
 * has a run of its own, so a listener that hangs blocks only its own lanes. No transaction and no connection is held
 * during a call.
 */
@Injectable()
export class OutboxProcessor implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly loop: Loop;
  /** Lanes that were just written to. */
  private readonly hinted = new Set<number>();
  /** Lanes that this replica just released, and that may have more to send. */
  private readonly released = new Set<number>();
  /** Lanes that did not fit into the limit of leased lanes. */
  private readonly postponed = new Set<number>();
  private readonly piggybacks = new PiggybackLeases<ClaimedDelivery>();
  private nextScanAtMs = 0;
  /** The lane after which the next scan starts; -1 when the last one reached the end. */
  private cursor = -1;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly queue: OutboxQueue,
    private readonly store: OutboxStore,
    private readonly lanes: LeasedLanes,
    private readonly runs: LaneRuns,
    private readonly gates: Gates,
    private readonly probes: Probes,
    private readonly admission: Admission,
    private readonly listeners: Listeners,
    private readonly draining: Draining,
    private readonly sizes: RunSizes,
    private readonly holdTimers: HoldTimers,
    piggyback: Piggyback,
    wakeups: Wakeups,
    loops: Loops,
  ) {
    this.loop = loops.create('outbox', settings.outboxPoll, () => this.pass());
    piggyback.register('outbox', (written) => this.piggybackLease(written));
    wakeups.on('outbox', (written) => this.wake(written));
    listeners.onChange(() => this.scanAllSoon());
  }

  onApplicationBootstrap(): void {
    if (!this.settings.roles.includes('outbox')) return;
    this.loop.start();
    this.lanes.start();
  }

  /** Calls in flight end and are recorded; deliveries that were claimed and not sent are given back; no attempt is counted. */
  async beforeApplicationShutdown(): Promise<void> {
    this.draining.begin();
    this.holdTimers.stop();
    await this.loop.stop();
    await this.piggybacks.allSettled();
    await this.runs.allEnded();
    await this.lanes.stop();
    this.draining.done();
  }

  private wake(lanes: ReadonlySet<number>): void {
    if (lanes.size === 0) this.nextScanAtMs = 0;
    const sent = [...lanes].filter((lane) => this.listeners.byNumber(listenerOfLane(lane))?.mode !== 'pull');
    for (const lane of sent) this.hinted.add(lane);
    if (lanes.size === 0 || sent.length > 0) this.loop.wake();
  }

  private scanAllSoon(): void {
    this.nextScanAtMs = 0;
    this.loop.wake();
  }

  /** Leases lanes that have something to send and starts their runs; never waits for a receiver. */
  private async pass(): Promise<Next> {
    const scanDue = performance.now() >= this.nextScanAtMs;
    if (scanDue) {
      this.nextScanAtMs = performance.now() + this.settings.outboxPoll;
      await this.gates.refresh();
    }
    // The end of a run wakes the loop.
    if (this.freeLanes() <= 0) return 'idle';
    if (scanDue) await this.scanAll(this.freeLanes());
    else if (this.hinted.size > 0) await this.leaseLanes(takeAll(this.hinted), true);
    else await this.leaseLanes(takeAll(this.released), false);
    if (this.hinted.size + this.released.size > 0) return 'again';
    return { afterMs: Math.max(1, this.nextScanAtMs - performance.now()) };
  }

  private async scanAll(limit: number): Promise<void> {
    const { ready, due, nextHoldMs } = await this.store.busyLanes(this.closedListeners(), this.cursor, limit);
    const complete = ready.length < limit;
    this.cursor = complete ? -1 : ready.at(-1)!;
    this.scanAgainIn(complete ? Math.min(nextHoldMs, this.gates.nextMs()) : 0);
    await this.leaseLanes([...new Set([...due, ...ready])], false);
    await this.probes.start(this.freeLanes(), (leased, rows) => this.startRun(leased, rows));
  }

  /** Negative when lanes that were leased with a commit exceeded the limit. */
  private freeLanes(): number {
    return this.settings.outboxLanes - this.lanes.size;
  }

  private scanAgainIn(ms: number): void {
    const atMs = performance.now() + Math.max(ms, MIN_SCAN_INTERVAL_MS);
    this.nextScanAtMs = Math.min(this.nextScanAtMs, atMs);
  }

  /** Listeners that nothing is sent to now, however many deliveries are pending. */
  private closedListeners(): number[] {
    const inactive = this.listeners.all().filter(({ state, mode }) => state !== 'active' || mode === 'pull');
    const numbers = inactive.map(({ number }) => number);
    return [...new Set([...numbers, ...this.listeners.deleted(), ...this.gates.closed()])];
  }

  /**
   * Quick: the lanes certainly have ready rows. How many rows are claimed of each lane is decided before the first
   * lease: it changes whenever a run of the same listener ends, also while a lease is awaited.
   */
  private async leaseLanes(candidates: readonly number[], quick: boolean): Promise<void> {
    const sendable = candidates.filter((lane) => this.canSendOn(lane));
    const { chosen, left } = fairShare(sendable, this.freeLanes(), (listener) =>
      this.lanes.countOf(listener),
    );
    for (const lane of left) this.postponed.add(lane);
    const sized = chosen.map((lane) => ({ lane, maxRows: this.maxRowsOf(lane) }));
    const untried = new Set(chosen);
    try {
      for (const group of groupBy(sized, ({ maxRows }) => maxRows)) {
        const lanes = group.map(({ lane }) => lane);
        await this.leaseGroup(lanes, group[0]!.maxRows, quick);
        for (const lane of lanes) untried.delete(lane);
      }
    } catch (error) {
      // Without this they would wait for the next scan of all lanes.
      for (const lane of untried) this.released.add(lane);
      throw error;
    }
  }

  private canSendOn(lane: number): boolean {
    const listener = listenerOfLane(lane);
    return (
      !this.lanes.has(lane) && this.admission.open({ listener, probe: undefined, lost: false }) !== undefined
    );
  }

  /** With a rate limit per key only the first delivery of a key is sent, so claiming more would be wasted. */
  private maxRowsOf(lane: number): number {
    const listener = this.listeners.byNumber(listenerOfLane(lane));
    return listener?.rateLimit?.perKey ? 1 : this.sizes.first(listenerOfLane(lane));
  }

  private async leaseGroup(lanes: readonly number[], maxPerLane: number, quick: boolean): Promise<void> {
    const requestedAtMs = performance.now();
    const limits = limitsFor(lanes, maxPerLane);
    const leased = await this.queue.lanes.lease({ hint: lanes, quick, ...limits });
    if (!leased) return;
    this.startRuns(leased, maxPerLane, requestedAtMs);
    // A lane that crashed a replica before is leased alone; the others can still be leased.
    const { oneAtATime, lanes: taken } = leased.lease;
    if (oneAtATime) for (const lane of lanes) if (!taken.has(lane)) this.released.add(lane);
  }

  /** A fan-out to few lanes leases and claims them with its own commit, if this replica may lease that many more. */
  private piggybackLease(written: ReadonlySet<number>): PiggybackLease<ClaimedDelivery> | undefined {
    if (written.size > MAX_PIGGYBACK_LANES) return undefined;
    if (!this.loop.isRunning || this.draining.stopping.aborted) return undefined;
    const lanes = [...written].filter((lane) => this.canSendOn(lane));
    if (lanes.length === 0 || lanes.length > this.freeLanes()) return undefined;
    const maxPerLane = Math.min(...lanes.map((lane) => this.maxRowsOf(lane)));
    const piggyback = this.queue.lanes.piggyback(lanes, limitsFor(lanes, maxPerLane));
    const requestedAtMs = performance.now();
    return this.piggybacks.track(piggyback, (leased) => this.startRuns(leased, maxPerLane, requestedAtMs));
  }

  private startRuns(
    { lease, rows }: LeasedRows<ClaimedDelivery>,
    maxPerLane: number,
    requestedAtMs: number,
  ): void {
    const claimed = byLane(rows);
    for (const lane of lease.lanes) {
      const leased = leasedLane({
        lane,
        token: lease.token,
        listener: listenerOfLane(lane),
        maxRows: lease.oneAtATime ? 1 : maxPerLane,
        untilMs: requestedAtMs + this.settings.outboxSlice,
        probe: undefined,
        safeUntilMs: requestedAtMs + this.settings.outboxLease,
      });
      void this.startRun(leased, claimed.get(lane) ?? []);
    }
  }

  /** Resolves when the lane is no longer leased; it may have more to send, and a postponed lane may take its place. */
  private async startRun(leased: LeasedLane, rows: readonly ClaimedDelivery[]): Promise<void> {
    await this.runs.start(leased, rows);
    for (const lane of [leased.lane, ...takeAll(this.postponed)]) this.released.add(lane);
    this.loop.wake();
  }
}

function takeAll(lanes: Set<number>): number[] {
  const taken = [...lanes];
  lanes.clear();
  return taken;
}

function limitsFor(lanes: readonly number[], maxPerLane: number) {
  return { maxLanes: lanes.length, maxRows: lanes.length * maxPerLane, maxPerLane };
}
