import { Inject, Injectable } from '@nestjs/common';
import type { Listener } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Gates, type Openings, type Probe } from '../admit/gates.ts';
import type { Outcome } from '../send/outcome.ts';
import type { SentDelivery } from '../settle/delivery-result.ts';
import { ListenerHealth } from './listener-health.ts';

type SentCall = Omit<SentDelivery, 'kind' | 'atMs'>;
type Failure = Exclude<Outcome, { kind: 'delivered' }>;

/** A probe that showed nothing about the endpoint is repeated after this time. */
const PROBE_AGAIN_MS = 5_000;

const OF_WEBHOOK: Openings = { firstMs: 30_000, maxMs: 600_000 };
/** Everything that is published goes to it, and a connection costs it little. */
const OF_BROKER: Openings = { firstMs: 1_000, maxMs: 15_000 };

/** What the results of calls mean for the listener as a whole: whether its circuit opens, its gate closes, or it is disabled. */
@Injectable()
export class ListenerPolicy {
  private readonly circuits = new Map<number, Circuit>();
  private readonly known = new Map<
    number,
    { readonly endpoint: string; readonly state: Listener['state'] }
  >();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly gates: Gates,
    private readonly health: ListenerHealth,
    private readonly listeners: Listeners,
  ) {
    listeners.onChange(() => this.startOver());
  }

  /** Undefined: the delivery succeeded, and nothing has to be written. */
  record(sent: SentCall): Promise<void> | undefined {
    const { listener, leased, outcome } = sent;
    if (outcome.kind !== 'delivered') {
      this.report(sent, outcome);
      return this.orLog(listener, this.recordFailure(sent, outcome));
    }
    this.health.succeededWith(listener);
    this.circuitOf(listener.number).count(true);
    if (leased.probe) return this.orLog(listener, this.closeCircuit(listener));
    if (!this.gates.hasPaused(listener.number)) return undefined;
    return this.orLog(listener, this.gates.forgetPauses(listener.number));
  }

  /** An error here must not lose the outcome of the delivery: the next failure leads to the same decision. */
  private async orLog({ name }: Listener, work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.log.warn(
        { event: 'outbox.policy-failed', listener: name, error },
        'the state of a listener could not be written; the next failure retries it',
      );
    }
  }

  private async recordFailure(sent: SentCall, outcome: Failure): Promise<void> {
    const { listener, leased, callResult } = sent;
    if (outcome.kind === 'pause') {
      await this.gates.pause(listener.number, outcome.afterMs, outcome.reason, leased.probe !== undefined);
    } else if (leased.probe) await this.probed(sent, outcome, leased.probe);
    else if (isDown(sent) && this.circuitOf(listener.number).count(false)) {
      await this.openCircuit(listener, outcome);
    }
    if (callResult.kind === 'responded') await this.health.respondedWith(listener, callResult.status);
    if (outcome.kind === 'dead' && outcome.disable) await this.health.disable(listener, outcome.reason);
  }

  private async probed(sent: SentCall, { reason }: Failure, probe: Probe): Promise<void> {
    const { number, broker } = sent.listener;
    const openings = broker ? OF_BROKER : OF_WEBHOOK;
    if (isDown(sent)) await this.gates.probeFailed(number, openings, `circuit open: ${reason}`, probe);
    else if (showsEndpointUp(sent)) await this.closeCircuit(sent.listener);
    else await this.gates.returnProbe(number, PROBE_AGAIN_MS, probe);
  }

  private async openCircuit(listener: Listener, { reason }: Failure): Promise<void> {
    this.circuitOf(listener.number).forget();
    const openings = listener.broker ? OF_BROKER : OF_WEBHOOK;
    await this.gates.openCircuit(listener.number, openings, `circuit open: ${reason}`);
    this.log.error(
      { event: 'outbox.circuit-opened', listener: listener.name, reason },
      'the circuit of a listener opened; nothing is sent to it for a while',
    );
  }

  private async closeCircuit(listener: Listener): Promise<void> {
    await this.gates.closeCircuit(listener.number);
    this.circuitOf(listener.number).forget();
    this.log.info(
      { event: 'outbox.circuit-closed', listener: listener.name },
      'the circuit of a listener closed; its endpoint responds again',
    );
  }

  /** A new URL or broker, or a listener that an operator resumed, is not judged by earlier failures. */
  private startOver(): void {
    for (const { number, url, broker, state } of this.listeners.all()) {
      const before = this.known.get(number);
      const endpoint = broker ? JSON.stringify(broker) : url;
      this.known.set(number, { endpoint, state });
      const resumed = state === 'active' && before !== undefined && before.state !== 'active';
      if (before === undefined || (before.endpoint === endpoint && !resumed)) continue;
      this.circuits.delete(number);
      this.gates.startOver(number).catch((error) => {
        this.log.warn(
          { event: 'outbox.gate-kept', listener: number, error },
          'the pause of a changed listener could not be ended; it ends by itself later',
        );
      });
    }
    for (const number of this.listeners.deleted()) {
      const before = this.known.get(number);
      if (before) this.known.set(number, { ...before, state: 'disabled' });
    }
  }

  private report({ listener, delivery }: SentCall, outcome: Failure): void {
    const level = outcome.kind === 'dead' ? 'error' : 'warn';
    this.log[level](
      {
        event: `outbox.${outcome.kind}`,
        listener: listener.name,
        delivery: delivery.id,
        attempt: delivery.attempt,
        reason: outcome.reason,
        ...('afterMs' in outcome ? { retryInMs: outcome.afterMs } : {}),
      },
      outcome.kind === 'dead' ? 'a delivery became a dead letter' : 'a delivery failed and is retried later',
    );
  }

  private circuitOf(listener: number): Circuit {
    const known = this.circuits.get(listener) ?? new Circuit();
    this.circuits.set(listener, known);
    return known;
  }
}

/** A refusal of one message shows nothing about the endpoint, and neither does a local error. */
function isDown({ callResult, outcome }: Pick<SentDelivery, 'callResult' | 'outcome'>): boolean {
  if (callResult.kind === 'failed') return callResult.reason !== 'local' && callResult.reason !== 'rejected';
  return callResult.kind === 'responded' && callResult.status >= 500 && outcome.kind !== 'pause';
}

function showsEndpointUp({ callResult }: Pick<SentDelivery, 'callResult'>): boolean {
  return callResult.kind === 'failed' ? callResult.reason === 'rejected' : true;
}

const WINDOW_MS = 300_000;
const SLOTS = 30;
const MIN_CALLS = 10;
const FAILED_SHARE = 0.7;

interface Slot {
  readonly startedAtMs: number;
  good: number;
  bad: number;
}

/** The calls to one listener in the last 5 minutes: 70 % failures of at least 10 calls open its circuit. */
export class Circuit {
  private slots: Slot[] = [];

  /** Returns whether the circuit should open now. */
  count(good: boolean, nowMs: number = performance.now()): boolean {
    const slot = this.slotAt(nowMs);
    if (good) slot.good += 1;
    else slot.bad += 1;
    if (good) return false;
    const bad = this.slots.reduce((sum, one) => sum + one.bad, 0);
    const all = this.slots.reduce((sum, one) => sum + one.good + one.bad, 0);
    return all >= MIN_CALLS && bad / all >= FAILED_SHARE;
  }

  forget(): void {
    this.slots = [];
  }

  private slotAt(nowMs: number): Slot {
    const last = this.slots.at(-1);
    if (last && nowMs - last.startedAtMs < WINDOW_MS / SLOTS) return last;
    const fresh = { startedAtMs: nowMs, good: 0, bad: 0 };
    this.slots = [...this.slots.filter(({ startedAtMs }) => nowMs - startedAtMs < WINDOW_MS), fresh];
    return fresh;
  }
}
