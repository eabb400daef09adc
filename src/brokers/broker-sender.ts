import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { type CallFailure, failureOf } from '../webhooks/call-failures.ts';
import type { CallResult } from '../webhooks/call-result.ts';
import { EgressGuard } from '../webhooks/egress-guard.ts';
import { STOPPED } from '../webhooks/exchange.ts';
import type { Delivery } from '../webhooks/webhook-request.ts';
import type { SendOptions } from '../webhooks/webhook-sender.ts';
import { kindOf, missingPackage } from './kinds.ts';
import { PendingPublish } from './pending-publish.ts';
import { type Sink, SinkError, type SinkKind, type SinkTarget } from './sink.ts';

const CONNECT_TIMEOUT_MS = 10_000;

/** The connection of one listener, as it is defined at this revision. */
interface Session {
  readonly revision: number;
  readonly sink: Promise<Sink>;
  /** Once it is connected. */
  open: Sink | undefined;
  /** Publishes that wait for this connection or on it. */
  inFlight: number;
  /** When the broker last acknowledged something. */
  acknowledgedAtMs: number;
  isRetired: boolean;
}

/**
 * Publishes deliveries to brokers, over one connection per listener: one that hangs delays no other. A connection that ended
 * is not repaired but replaced, by the next delivery: retries, circuit and pauses are those of the outbox.
 */
@Injectable()
export class BrokerSender {
  private readonly sessions = new Map<number, Session>();
  private readonly bySignal = new WeakMap<AbortSignal, Set<PendingPublish>>();
  private isClosed = false;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Pick<Settings, 'outboxLease'>,
    @Inject(LOG) private readonly log: Log,
    private readonly guard: EgressGuard,
  ) {}

  /** Never throws: a failure is a result, too. */
  send(delivery: Delivery, target: SinkTarget, { timeoutMs, signal }: SendOptions): Promise<CallResult> {
    return new Promise((resolve) => {
      const session = this.isClosed ? undefined : this.sessionOf(target, timeoutMs);
      const pending = new PendingPublish(resolve, timeoutMs, signal && this.groupOf(signal), (startedAtMs) =>
        this.dropIfSilent(target.number, session, startedAtMs),
      );
      if (!session || signal?.aborted) return pending.fail(STOPPED);
      void this.publish(delivery, target, pending, session);
    });
  }

  /** Closes the connections of all other listeners. */
  retain(listeners: ReadonlySet<number>): void {
    for (const number of this.sessions.keys()) if (!listeners.has(number)) this.retire(number);
  }

  /** What waits for an acknowledgement fails, and is sent again later. */
  async close(): Promise<void> {
    this.isClosed = true;
    const sessions = [...this.sessions.values()];
    this.sessions.clear();
    await Promise.all(sessions.map(closeSink));
  }

  private async publish(
    delivery: Delivery,
    target: SinkTarget,
    pending: PendingPublish,
    session: Session,
  ): Promise<void> {
    session.inFlight += 1;
    try {
      const sink = await session.sink;
      if (pending.isSettled) return;
      pending.isSent = true;
      const detail = await sink.publish(delivery, pending.leftMs());
      session.acknowledgedAtMs = performance.now();
      pending.acknowledge(detail);
    } catch (error) {
      await this.dropIfClosed(target.number, session);
      if (!pending.isSettled) pending.fail(await this.failureOf(error, target));
    } finally {
      session.inFlight -= 1;
      if (session.isRetired && session.inFlight === 0) void closeSink(session);
    }
  }

  private sessionOf(target: SinkTarget, timeoutMs: number): Session {
    const known = this.sessions.get(target.number);
    if (known?.revision === target.revision && !known.open?.isClosed) return known;
    if (known) this.retire(target.number);
    const sink = this.connect(target, Math.min(timeoutMs, CONNECT_TIMEOUT_MS));
    const session: Session = {
      revision: target.revision,
      sink,
      open: undefined,
      inFlight: 0,
      acknowledgedAtMs: 0,
      isRetired: false,
    };
    sink.then(
      (open) => {
        session.open = open;
      },
      () => undefined,
    );
    this.sessions.set(target.number, session);
    return session;
  }

  private async connect({ name, broker }: SinkTarget, connectMs: number): Promise<Sink> {
    if (!broker) throw new Error('a listener without a broker');
    const kind: SinkKind = await kindOf(broker.mode);
    const warn = (detail: string) =>
      this.log.warn({ event: 'brokers.unchecked', listener: name, detail }, 'a broker could not be checked');
    const { guard, settings } = this;
    return kind.connect(broker, {
      guard,
      connectMs,
      leaseMs: settings.outboxLease,
      name: `sluice ${name}`,
      warn,
    });
  }

  /** Publishes in flight on it still end. */
  private retire(number: number): void {
    const session = this.sessions.get(number);
    if (!session) return;
    this.sessions.delete(number);
    session.isRetired = true;
    if (session.inFlight === 0) void closeSink(session);
  }

  /** A connection that failed or ended is not used again. */
  private async dropIfClosed(number: number, session: Session): Promise<void> {
    const sink = await session.sink.catch(() => undefined);
    if (sink?.isClosed !== false && this.sessions.get(number) === session) this.retire(number);
  }

  /** Nothing was acknowledged during a whole timeout: the connection may be dead without knowing it. */
  private dropIfSilent(number: number, session: Session | undefined, sinceMs: number): void {
    if (!session || session.acknowledgedAtMs >= sinceMs || this.sessions.get(number) !== session) return;
    this.sessions.delete(number);
    session.isRetired = true;
    void closeSink(session);
  }

  private async failureOf(error: unknown, { broker }: SinkTarget): Promise<CallFailure> {
    if (error instanceof SinkError) return error.failure;
    const missing = missingPackage(error);
    if (missing !== undefined)
      return {
        reason: 'local',
        detail: `the package ${missing} is not installed on this replica: npm install ${missing}`,
      };
    const known = (await kindOf(broker!.mode)).failureOf(error);
    return known ?? failureOf(deepestWithCode(error), true);
  }

  /** One abort listener for all publishes: a signal with hundreds of listeners is searched at every add and remove. */
  private groupOf(signal: AbortSignal): Set<PendingPublish> {
    const known = this.bySignal.get(signal);
    if (known) return known;
    const together = new Set<PendingPublish>();
    signal.addEventListener('abort', () => [...together].forEach((one) => void one.fail(STOPPED)), {
      once: true,
    });
    this.bySignal.set(signal, together);
    return together;
  }
}

async function closeSink({ sink }: Session): Promise<void> {
  await sink.then((open) => open.close()).catch(() => undefined);
}

/** Clients wrap the errors of sockets. */
function deepestWithCode(error: unknown): unknown {
  for (let one = error, depth = 0; one instanceof Error && depth < 5; one = one.cause, depth += 1) {
    if (typeof (one as NodeJS.ErrnoException).code === 'string') return one;
  }
  return error;
}
