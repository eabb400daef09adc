import { type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { headers, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node';
import { formatDuration } from '../../config/duration.ts';
import { cloudEventHeaders, type Delivery, traceOf } from '../../webhooks/webhook-request.ts';
import type { BrokerOf } from '../broker.ts';
import { type Sink, SinkError, type SinkKind, type SinkOptions } from '../sink.ts';
import { filled, subjectToken } from '../template.ts';
import { natsConnection } from './nats-connection.ts';
import { natsFailure } from './nats-failures.ts';

type NatsBroker = BrokerOf<'nats'>;

const NANOS_PER_MS = 1_000_000;

/** Publishes to a JetStream stream; delivered when the stream has acknowledged. */
export const NATS_SINKS: SinkKind<'nats'> = {
  async connect(broker, options) {
    const connection = await natsConnection(broker, options);
    return new NatsSink(broker, connection, options);
  },
  failureOf: natsFailure,
};

class NatsSink implements Sink {
  private readonly client: JetStreamClient;
  private windowChecked: Promise<void> | undefined;

  constructor(
    private readonly broker: NatsBroker,
    private readonly connection: NatsConnection,
    private readonly options: SinkOptions,
  ) {
    this.client = jetstream(connection);
  }

  get isClosed(): boolean {
    return this.connection.isClosed();
  }

  async publish(delivery: Delivery, timeoutMs: number): Promise<string> {
    const subject = filled(this.broker.subject, delivery, subjectToken);
    this.windowChecked ??= this.checkWindow(subject);
    await this.windowChecked.catch(this.checkAgain);
    const { stream, seq, duplicate } = await this.client.publish(subject, delivery.payload, {
      msgID: delivery.deliveryId,
      headers: headersOf(delivery),
      timeout: timeoutMs,
      ...(this.broker.stream ? { expect: { streamName: this.broker.stream } } : {}),
    });
    return `stream ${stream}, sequence ${seq}${duplicate ? ', a duplicate' : ''}`;
  }

  /** The stream may be corrected until the next delivery. */
  private readonly checkAgain = (error: unknown) => {
    this.windowChecked = undefined;
    throw error;
  };

  async close(): Promise<void> {
    await this.connection.close();
  }

  /**
   * The stream must recognize the id of a delivery that a replica sent and could not record before it died: the next
   * replica sends it again once the lease is over.
   */
  private async checkWindow(subject: string): Promise<void> {
    const { guard: _, connectMs, leaseMs, warn } = this.options;
    const windowMs = await this.windowOf(subject, connectMs).catch((error: unknown) => {
      const failure = natsFailure(error);
      if (failure?.reason !== 'auth' && failure?.reason !== 'timeout') throw error;
      warn(`the duplicate window of the stream cannot be read (${failure.detail})`);
      return undefined;
    });
    if (windowMs === undefined || windowMs > leaseMs) return;
    const [has, needed] = [formatDuration(windowMs), formatDuration(leaseMs)];
    const detail = `the stream recognizes duplicates for ${has} only; set its duplicate window above OUTBOX_LEASE (${needed})`;
    throw new SinkError({ reason: 'setup', detail });
  }

  private async windowOf(subject: string, timeout: number): Promise<number> {
    const manager: JetStreamManager = await jetstreamManager(this.connection, { checkAPI: false, timeout });
    const name = this.broker.stream ?? (await manager.streams.find(subject));
    const { config } = await manager.streams.info(name);
    return config.duplicate_window / NANOS_PER_MS;
  }
}

function headersOf(delivery: Delivery): MsgHdrs {
  const list = headers();
  const flat = cloudEventHeaders(delivery);
  for (let at = 0; at < flat.length; at += 2) list.append(flat[at]!, flat[at + 1]!);
  list.append('content-type', 'application/json');
  list.append('traceparent', traceOf(delivery));
  return list;
}
