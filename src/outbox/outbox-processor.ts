import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import type { Loop, Next } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import type { HoldRequest } from '../lanes/hold-request.ts';
import type { LeasedRows, PiggybackLease } from '../lanes/lease-request.ts';
import { Piggyback, PiggybackLeases } from '../lanes/piggyback.ts';
import { Wakeups } from '../lanes/wakeups.ts';
import { Listeners } from '../listeners/listeners.ts';
import { Admission } from './admit/admission.ts';
import { Draining } from './admit/draining.ts';
import { Gates } from './admit/gates.ts';
import { Probes } from './admit/probes.ts';
import { byLane, type ClaimedDelivery } from './claim/claimed-delivery.ts';
import { fairShare } from './claim/fair-share.ts';
import { heldLane } from './claim/held-lane.ts';
import { HeldLanes } from './claim/held-lanes.ts';
import { OutboxQueue } from './claim/outbox-queue.ts';
import { RunSizes } from './claim/run-sizes.ts';
import { listenerOfLane } from './fan-out/delivery-lane.ts';
import { OutboxStore } from './outbox-store.ts';
import { LaneRuns } from './send/lane-runs.ts';
import { ResultWriter } from './settle/result-writer.ts';

/** Between two looks everywhere, however soon something is due. */
const MIN_REST_MS = 20;
/** Lanes of one commit; a batch that writes to many has better things to do before it is committed. */
const MAX_ALONG = 8;

/**
 * D5: sends what is owed, independently of the inbox. Every lane is a run of its own, so that a listener that hangs
 * keeps its own lanes waiting and nobody else's; no transaction and no connection is held during a call.
 */
@Injectable()
export class OutboxProcessor implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly loop: Loop;
  /** Lanes somebody wrote to. */
  private readonly hinted = new Set<number>();
  /** Lanes that were just released, and may have more. */
  private readonly released = new Set<number>();
  /** Lanes there was no room for. */
  private readonly postponed = new Set<number>();
  private readonly offers = new PiggybackLeases<ClaimedDelivery>();
  private readonly timers = new Set<NodeJS.Timeout>();
  private scanAtMs = 0;
  /** Where the last look ended, if it did not see everything. */
  private cursor = -1;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly queue: OutboxQueue,
    private readonly store: OutboxStore,
    private readonly lanes: HeldLanes,
    private readonly runs: LaneRuns,
    private readonly gates: Gates,
    private readonly probes: Probes,
    private readonly admission: Admission,
    private readonly listeners: Listeners,
    private readonly draining: Draining,
    private readonly sizes: RunSizes,
    settling: ResultWriter,
    piggyback: Piggyback,
    wakeups: Wakeups,
    loops: Loops,
  ) {
    this.loop = loops.create('outbox', settings.outboxPoll, () => this.pass());
    runs.onReleased = ({ lane }) => this.pollLanes([lane, ...this.takeAll(this.postponed)]);
    settling.onHolds = (holds) => this.remember(holds);
    piggyback.register('outbox', (written) => this.offer(written));
    wakeups.on('outbox', (written) => this.wake(written));
    listeners.onChange(() => this.scanAllSoon());
  }

  onApplicationBootstrap(): void {
    if (!this.settings.roles.includes('outbox')) return;
    this.loop.start();
    this.lanes.start();
  }

  /** Calls in flight are ended and recorded; what was claimed and not sent is given back uncharged. */
  async beforeApplicationShutdown(): Promise<void> {
    this.draining.begin();
    for (const timer of this.timers) clearTimeout(timer);
    await this.loop.stop();
    await this.offers.allSettled();
    await this.runs.allEnded();
    await this.lanes.stop();
    this.draining.done();
  }

  private wake(lanes: Iterable<number>): void {
    let any = false;
    for (const lane of lanes) {
      this.hinted.add(lane);
      any = true;
    }
    if (any) this.loop.wake();
    else this.scanAllSoon();
  }

  private pollLanes(lanes: readonly number[]): void {
    for (const lane of lanes) this.released.add(lane);
    this.loop.wake();
  }

  private scanAllSoon(): void {
    this.scanAtMs = 0;
    this.loop.wake();
  }

  /** A key that waits for a moment only is looked at when that is over; a look everywhere would find it late. */
  private remember(holds: readonly HoldRequest[]): void {
    for (const { lane, forMs } of holds) {
      if (forMs === undefined || forMs > this.settings.outboxPoll * 2) continue;
      const timer = setTimeout(() => {
        this.timers.delete(timer);
        this.wake([lane]);
      }, forMs + 1);
      this.timers.add(timer);
    }
  }

  /** Takes lanes that have something to send and sets them going; never waits for a receiver. */
  private async pass(): Promise<Next> {
    const everywhere = performance.now() >= this.scanAtMs;
    if (everywhere) {
      this.scanAtMs = performance.now() + this.settings.outboxPoll;
      await this.gates.refresh();
    }
    // A lane that is released wakes us.
    if (this.room() <= 0) return 'idle';
    if (everywhere) await this.scanAll(this.room());
    else if (this.hinted.size > 0) await this.take(this.takeAll(this.hinted), true);
    else await this.take(this.takeAll(this.released), false);
    if (this.hinted.size + this.released.size > 0) return 'again';
    return { afterMs: Math.max(1, this.scanAtMs - performance.now()) };
  }

  private async scanAll(room: number): Promise<void> {
    const { ready, due, nextHoldMs } = await this.store.busyLanes(this.closedListeners(), this.cursor, room);
    const complete = ready.length < room;
    this.cursor = complete ? -1 : ready.at(-1)!;
    this.scanAgainIn(complete ? Math.min(nextHoldMs, this.gates.nextMs()) : 0);
    await this.take([...new Set([...due, ...ready])], false);
    await this.probes.start(this.room());
  }

  /** Negative: lanes that were taken along with a commit made it more than the limit. */
  private room(): number {
    return this.settings.outboxLanes - this.lanes.size;
  }

  private scanAgainIn(ms: number): void {
    this.scanAtMs = Math.min(this.scanAtMs, performance.now() + Math.max(ms, MIN_REST_MS));
  }

  /** Whom nothing is sent to now, however much is owed. */
  private closedListeners(): number[] {
    const inactive = this.listeners.all().filter(({ state }) => state !== 'active');
    const numbers = inactive.map(({ number }) => number);
    return [...new Set([...numbers, ...this.listeners.deleted(), ...this.gates.closed()])];
  }

  private takeAll(from: Set<number>): number[] {
    const lanes = [...from];
    from.clear();
    return lanes;
  }

  /**
   * Quick: there is surely something in them. How many rows are claimed of a lane is decided once: it changes while a
   * lease is awaited, whenever a run of the same listener ends.
   */
  private async take(candidates: readonly number[], quick: boolean): Promise<void> {
    const wanted = candidates.filter((lane) => this.isWanted(lane));
    const { chosen, left } = fairShare(wanted, this.room(), (listener) => this.lanes.countOf(listener));
    for (const lane of left) this.postponed.add(lane);
    const untried = new Set(chosen);
    try {
      for (const [maxRows, lanes] of this.byMostRows(chosen)) {
        await this.lease(lanes, maxRows, quick);
        for (const lane of lanes) untried.delete(lane);
      }
    } catch (error) {
      // Nobody else remembers them before the next look everywhere.
      for (const lane of untried) this.released.add(lane);
      throw error;
    }
  }

  private isWanted(lane: number): boolean {
    const listener = listenerOfLane(lane);
    return (
      !this.lanes.has(lane) && this.admission.open({ listener, probe: undefined, lost: false }) !== undefined
    );
  }

  /** With a rate for each key only the first of a key is sent, so more would be claimed for nothing. */
  private maxRowsOf(lane: number): number {
    const listener = this.listeners.byNumber(listenerOfLane(lane));
    return listener?.rateLimit?.perKey ? 1 : this.sizes.first(listenerOfLane(lane));
  }

  private byMostRows(lanes: readonly number[]): Map<number, number[]> {
    const groups = new Map<number, number[]>();
    for (const lane of lanes) {
      const maxRows = this.maxRowsOf(lane);
      const group = groups.get(maxRows);
      if (group) group.push(lane);
      else groups.set(maxRows, [lane]);
    }
    return groups;
  }

  private async lease(lanes: readonly number[], maxPerLane: number, quick: boolean): Promise<void> {
    const askedAtMs = performance.now();
    const wanted = wantedOf(lanes, maxPerLane);
    const leased = await this.queue.lanes.lease({ hint: lanes, quick, ...wanted });
    if (!leased) return;
    this.start(leased, maxPerLane, askedAtMs);
    // One that crashed before is taken alone; the others are still to be had.
    const { oneAtATime: careful, lanes: taken } = leased.lease;
    if (careful) for (const lane of lanes) if (!taken.has(lane)) this.released.add(lane);
  }

  /** What is fanned out to few lanes is leased and claimed with that very commit, if there is room for it. */
  private offer(written: ReadonlySet<number>): PiggybackLease<ClaimedDelivery> | undefined {
    if (written.size > MAX_ALONG || !this.loop.isRunning || this.draining.stopping.aborted) return undefined;
    const lanes = [...written].filter((lane) => this.isWanted(lane));
    if (lanes.length === 0 || lanes.length > this.room()) return undefined;
    const maxPerLane = Math.min(...lanes.map((lane) => this.maxRowsOf(lane)));
    const piggyback = this.queue.lanes.piggyback(lanes, wantedOf(lanes, maxPerLane));
    const askedAtMs = performance.now();
    return this.offers.track(piggyback, (leased) => this.start(leased, maxPerLane, askedAtMs));
  }

  private start({ lease, rows }: LeasedRows<ClaimedDelivery>, maxPerLane: number, askedAtMs: number): void {
    const claimed = byLane(rows);
    for (const lane of lease.lanes) {
      const held = heldLane({
        lane,
        token: lease.token,
        listener: listenerOfLane(lane),
        maxRows: lease.oneAtATime ? 1 : maxPerLane,
        untilMs: askedAtMs + this.settings.outboxSlice,
        probe: undefined,
        safeUntilMs: askedAtMs + this.settings.outboxLease,
      });
      this.lanes.add(held);
      void this.runs.start(held, claimed.get(lane) ?? []);
    }
  }
}

function wantedOf(lanes: readonly number[], maxPerLane: number) {
  return { maxLanes: lanes.length, maxRows: lanes.length * maxPerLane, maxPerLane };
}
