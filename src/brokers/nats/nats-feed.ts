import { createHash, randomBytes } from 'node:crypto';
import {
  AckPolicy,
  type ConsumerMessages,
  DeliverPolicy,
  type JetStreamManager,
  type JsMsg,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  type StreamInfo,
} from '@nats-io/jetstream';
import type { MsgHdrs, NatsConnection } from '@nats-io/transport-node';
import { Arrivals } from '../arrivals.ts';
import {
  type FedMessage,
  type Feed,
  type FeedKind,
  type FeedOptions,
  type FeedOriginOf,
  type FeedPosition,
  MAX_UNSTORED,
} from '../feed.ts';
import { SinkError } from '../sink.ts';
import { natsConnection } from './nats-connection.ts';
import { natsFailure } from './nats-failures.ts';

type NatsOrigin = FeedOriginOf<'nats'>;

const NANOS_PER_MS = 1_000_000;
/** A message that is not acknowledged is handed out again; storing a batch is far quicker. */
const ACK_WAIT_MS = 60_000;
const CLOSED = { reason: 'reset', detail: 'the connection was closed' } as const;
const LOST = { reason: 'reset', detail: 'a message was lost on the way; the stream is read again' } as const;
const PASSED_ON = /^(ce-.+|content-type|traceparent)$/;

/** Reads a JetStream stream from the message after the last one that was stored. */
export const NATS_FEEDS: FeedKind<'nats'> = {
  async open(origin, options) {
    const connection = await natsConnection(origin, { ...options, name: `sluice ${options.name}` });
    try {
      return await openFeed(connection, origin, options);
    } catch (error) {
      await connection.close();
      throw error;
    }
  },
  failureOf: natsFailure,
};

async function openFeed(connection: NatsConnection, origin: NatsOrigin, options: FeedOptions): Promise<Feed> {
  const { connectMs } = options;
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: connectMs });
  const stream = await manager.streams.info(origin.stream);
  const from = startOf(stream, options);
  const consumer = await addConsumer(manager, origin, stream, options.name, from);
  const client = jetstream(connection, { timeout: connectMs });
  const feed = new NatsFeed(connection, stream, from - 1);
  await feed.read(await (await client.consumers.get(origin.stream, consumer)).consume(feed.pulls));
  return feed;
}

/** The sequence of the first message to read. What is no longer there is reported, never passed over in silence. */
function startOf({ config, created, state }: StreamInfo, { position, warn }: FeedOptions): number {
  if (!position) return 1;
  if (position.stream !== String(created)) {
    warn('the stream was created again; it is read from its first message');
    return 1;
  }
  const next = position.sequence + 1;
  const isKept = config.retention === RetentionPolicy.Workqueue || state.first_seq <= next;
  if (!isKept && state.last_seq >= next)
    warn(`the stream no longer has the messages ${next} to ${state.first_seq - 1}: its limits removed them`);
  return next;
}

/**
 * A consumer of its own for every opening, and no other: a replica that was frozen while another took its place still asks
 * for messages of its consumer, which is gone, and so takes none from the other.
 */
async function addConsumer(
  { consumers }: JetStreamManager,
  { stream, subject }: NatsOrigin,
  { config }: StreamInfo,
  source: string,
  from: number,
): Promise<string> {
  if (config.retention === RetentionPolicy.Interest)
    throw new SinkError({
      reason: 'setup',
      detail:
        'the stream keeps messages only while a consumer wants them: use the retention limits or workqueue',
    });
  const prefix = `sluice-${createHash('sha256').update(source).digest('hex').slice(0, 12)}-`;
  for await (const { name } of consumers.list(stream))
    if (name.startsWith(prefix)) await consumers.delete(stream, name);
  const name = prefix + randomBytes(6).toString('hex');
  await consumers.add(stream, {
    durable_name: name,
    description: `source ${source}`,
    ack_policy: AckPolicy.Explicit,
    ack_wait: ACK_WAIT_MS * NANOS_PER_MS,
    max_ack_pending: MAX_UNSTORED,
    ...(subject === undefined ? {} : { filter_subject: subject }),
    // A work queue has only what was not acknowledged, and takes no other policy.
    ...(config.retention === RetentionPolicy.Workqueue
      ? { deliver_policy: DeliverPolicy.All }
      : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: from }),
  });
  return name;
}

class NatsFeed implements Feed {
  private readonly arrivals = new Arrivals<JsMsg>();
  private readonly unstored = new Map<FedMessage, JsMsg>();
  private readonly streamId: string;
  private sequence: number;
  private lastTaken = 0;
  /** Of the last message that arrived; the server counts each one that it sends to this consumer. */
  private lastDelivered = 0;

  constructor(
    private readonly connection: NatsConnection,
    stream: StreamInfo,
    sequence: number,
  ) {
    this.streamId = String(stream.created);
    this.sequence = sequence;
  }

  /** How messages are asked for. */
  readonly pulls = {
    max_messages: MAX_UNSTORED,
    abort_on_missing_resource: true,
    callback: (message: JsMsg) => this.arrive(message),
  };

  async read(messages: ConsumerMessages): Promise<void> {
    const end = (error: unknown) => this.arrivals.end(error instanceof Error ? error : new SinkError(CLOSED));
    void messages.closed().then(end, end);
    void this.connection.closed().then(end, end);
  }

  async next(): Promise<readonly FedMessage[]> {
    for (;;) {
      const arrived = await this.arrivals.take();
      // One that is handed out again because its acknowledgement is late is being stored, or was.
      const fresh = arrived.filter(({ seq }) => seq > this.lastTaken);
      if (fresh.length > 0) return fresh.map((message) => this.taken(message));
    }
  }

  stored(messages: readonly FedMessage[]): FeedPosition {
    for (const message of messages) {
      const { seq } = this.unstored.get(message)!;
      this.unstored.get(message)!.ack();
      this.unstored.delete(message);
      this.sequence = Math.max(this.sequence, seq);
    }
    return { stream: this.streamId, sequence: this.sequence };
  }

  async close(): Promise<void> {
    this.arrivals.end(new Error('the source was closed'));
    await this.connection.close();
  }

  /**
   * The server sends a message once and waits for its acknowledgement; one that is lost on the way comes again later, after
   * the next ones. The stream is then read again from the position that was stored: nothing is passed over, and the order stays.
   */
  private arrive(message: JsMsg): void {
    const { deliverySequence } = message.info;
    const isNext = deliverySequence === this.lastDelivered + 1;
    this.lastDelivered = deliverySequence;
    if (isNext) this.arrivals.add(message);
    else this.arrivals.end(new SinkError(LOST));
  }

  private taken(message: JsMsg): FedMessage {
    this.lastTaken = message.seq;
    const { headers, subject, seq } = message;
    const stream = message.info.stream;
    const fed = {
      place: `${stream}/${seq}`,
      id: headers?.get('Nats-Msg-Id') || `${stream}/${Date.parse(this.streamId)}/${seq}`,
      address: subject,
      headers: headersOf(headers),
      body: Buffer.from(message.data),
    };
    this.unstored.set(fed, message);
    return fed;
  }
}

/** Values are percent-encoded where they are not ASCII, by the CloudEvents binding for NATS; some publishers do not. */
function headersOf(headers: MsgHdrs | undefined): Record<string, string> {
  const names = headers?.keys().filter((name) => PASSED_ON.test(name.toLowerCase())) ?? [];
  return Object.fromEntries(
    names.map((name) => [
      name.toLowerCase(),
      headers!.get(name).replace(/[^\x20-\x7e]+/gu, encodeURIComponent),
    ]),
  );
}
