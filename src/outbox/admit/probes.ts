import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { heldLane } from '../claim/held-lane.ts';
import { HeldLanes } from '../claim/held-lanes.ts';
import { OutboxQueue } from '../claim/outbox-queue.ts';
import { OutboxStore } from '../outbox-store.ts';
import { LaneRuns } from '../send/lane-runs.ts';
import { Gates, type Probe } from './gates.ts';

/** More than a call takes: a replica that dies with the probe does not keep it. */
const GRACE_MS = 10_000;

/** A circuit that was open long enough is tried with one delivery, by one replica. */
@Injectable()
export class Probes {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly gates: Gates,
    private readonly listeners: Listeners,
    private readonly store: OutboxStore,
    private readonly queue: OutboxQueue,
    private readonly lanes: HeldLanes,
    private readonly runs: LaneRuns,
  ) {}

  async start(room: number): Promise<void> {
    for (const listener of this.gates.halfOpen().slice(0, Math.max(0, room))) await this.probe(listener);
  }

  private async probe(number: number): Promise<void> {
    const listener = this.listeners.byNumber(number);
    if (listener?.state !== 'active') return;
    const lanes = await this.store.busyLanesOf(number, listener.lanes);
    if (lanes.length === 0) return;
    const probe = await this.gates.takeProbe(number, listener.timeoutMs + GRACE_MS);
    if (probe === undefined) return;
    if (!(await this.begin(number, lanes, probe))) await this.gates.returnProbe(number, 0, probe);
  }

  /** False: no lane is free, or none of its deliveries is to be sent now. */
  private async begin(listener: number, lanes: readonly number[], probe: Probe): Promise<boolean> {
    const askedAtMs = performance.now();
    const leased = await this.queue.lanes.lease({ hint: lanes, maxLanes: 1, maxRows: 1 });
    if (!leased) return false;
    const [lane] = leased.lease.lanes;
    // Lost again while rows were parked.
    if (lane === undefined) return false;
    const held = heldLane({
      lane,
      token: leased.lease.token,
      listener,
      maxRows: 1,
      untilMs: askedAtMs,
      probe,
      safeUntilMs: askedAtMs + this.settings.outboxLease,
    });
    this.lanes.add(held);
    const ended = this.runs.start(held, leased.rows);
    void ended.then(() => this.gates.returnProbe(listener, 0, probe)).catch(() => undefined);
    return true;
  }
}
