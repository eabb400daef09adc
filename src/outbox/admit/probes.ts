import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { type LeasedLane, leasedLane } from '../claim/leased-lane.ts';
import { type ClaimedDelivery, OutboxQueue } from '../claim/outbox-queue.ts';
import { OutboxStore } from '../outbox-store.ts';
import { Gates, type Probe } from './gates.ts';

/** Added to the time of a call: the probe of a replica that dies expires after that. */
const GRACE_MS = 10_000;

/** Resolves when the run has ended and its lane is released. */
type StartRun = (leased: LeasedLane, rows: readonly ClaimedDelivery[]) => Promise<void>;

/** A circuit that was open long enough is tried with one delivery, by one replica. */
@Injectable()
export class Probes {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly gates: Gates,
    private readonly listeners: Listeners,
    private readonly store: OutboxStore,
    private readonly queue: OutboxQueue,
  ) {}

  async start(limit: number, startRun: StartRun): Promise<void> {
    for (const listener of this.gates.halfOpen().slice(0, Math.max(0, limit)))
      await this.probe(listener, startRun);
  }

  private async probe(number: number, startRun: StartRun): Promise<void> {
    const listener = this.listeners.byNumber(number);
    if (listener?.state !== 'active') return;
    const lanes = await this.store.busyLanesOf(number, listener.lanes);
    if (lanes.length === 0) return;
    const probe = await this.gates.takeProbe(number, listener.timeoutMs + GRACE_MS);
    if (probe === undefined) return;
    const run = await this.lease(number, lanes, probe);
    if (!run) return this.gates.returnProbe(number, 0, probe);
    const ended = startRun(run.leased, run.rows);
    void ended.then(() => this.gates.returnProbe(number, 0, probe)).catch(() => undefined);
  }

  /** Undefined: no lane is free, or none of their deliveries can be sent now. */
  private async lease(listener: number, lanes: readonly number[], probe: Probe) {
    const requestedAtMs = performance.now();
    const found = await this.queue.lanes.lease({ hint: lanes, maxLanes: 1, maxRows: 1 });
    // Without a lane: it was lost again while rows were parked.
    const [lane] = found?.lease.lanes ?? [];
    if (!found || lane === undefined) return undefined;
    const leased = leasedLane({
      lane,
      token: found.lease.token,
      listener,
      maxRows: 1,
      untilMs: requestedAtMs,
      probe,
      safeUntilMs: requestedAtMs + this.settings.outboxLease,
    });
    return { leased, rows: found.rows };
  }
}
