import { createHash } from 'node:crypto';
import type { AsyncMessage, Channel, Connection } from 'rabbitmq-client';
import { Arrivals } from '../arrivals.ts';
import { type FedMessage, type Feed, type FeedKind, type FeedOriginOf, MAX_UNSTORED } from '../feed.ts';
import { SinkError } from '../sink.ts';
import { rabbitConnection } from './rabbit-connection.ts';
import { RABBIT_SINKS } from './rabbit-sink.ts';

type RabbitOrigin = FeedOriginOf<'rabbitmq'>;

/** The two ways in which the CloudEvents binding for AMQP allows names to be written. */
const CLOUD_EVENT = /^cloudEvents[:_](.+)$/;

/** Reads a queue as its exclusive consumer: the broker hands out what is not acknowledged again, in its order. */
export const RABBIT_FEEDS: FeedKind<'rabbitmq'> = {
  async open(origin, options) {
    const connection = await rabbitConnection(origin, { ...options, name: `sluice ${options.name}` });
    try {
      const feed = new RabbitFeed(connection, await connection.acquire());
      await feed.read(origin);
      return feed;
    } catch (error) {
      connection.unsafeDestroy();
      throw error;
    }
  },
  failureOf: RABBIT_SINKS.failureOf,
};

class RabbitFeed implements Feed {
  private readonly arrivals = new Arrivals<AsyncMessage>();
  private readonly unstored = new Map<FedMessage, number>();

  constructor(
    private readonly connection: Connection,
    private readonly channel: Channel,
  ) {}

  async read({ queue }: RabbitOrigin): Promise<void> {
    const end = (error: Error) => this.arrivals.end(error);
    this.connection.on('error', end);
    this.channel.on('close', () =>
      end(new SinkError({ reason: 'reset', detail: 'the connection was closed' })),
    );
    this.channel.on('basic.cancel', (_, error) => end(error));
    keepBodies(this.channel);
    await this.channel.basicQos({ prefetchCount: MAX_UNSTORED });
    // Exclusive: a replica that froze keeps what it was handed until the broker misses its heartbeat; nobody overtakes it.
    await this.channel.basicConsume({ queue, exclusive: true }, (message) => this.arrivals.add(message));
  }

  async next(): Promise<readonly FedMessage[]> {
    const arrived = await this.arrivals.take();
    return arrived.map((message) => {
      const fed = fedMessage(message);
      this.unstored.set(fed, message.deliveryTag);
      return fed;
    });
  }

  stored(messages: readonly FedMessage[]): undefined {
    for (const message of messages) {
      this.channel.basicAck({ deliveryTag: this.unstored.get(message)! });
      this.unstored.delete(message);
    }
  }

  async close(): Promise<void> {
    this.arrivals.end(new Error('the source was closed'));
    // Acknowledgements that were written before are on their way: closing the channel waits for the broker's reply.
    await this.channel.close();
    this.connection.unsafeDestroy();
  }
}

interface Parsing {
  _onHeader(frame: { fields: { contentType?: string; contentEncoding?: string } }): void;
}

/** The client parses JSON, which changes numbers and drops repeated members; a body with an encoding it leaves as it is. */
function keepBodies(channel: Channel): void {
  const parsing = channel as unknown as Parsing;
  const original = parsing._onHeader;
  parsing._onHeader = (frame) => {
    frame.fields.contentEncoding ||= 'identity';
    original.call(channel, frame);
  };
}

function fedMessage({
  messageId,
  routingKey,
  contentType,
  headers = {},
  body,
  ...rest
}: AsyncMessage): FedMessage {
  const given = Object.entries(headers).flatMap(([name, value]) => {
    const attribute = CLOUD_EVENT.exec(name)?.[1];
    if (attribute !== undefined) return [[`ce-${attribute.toLowerCase()}`, percentEncoded(textOf(value))]];
    return name === 'traceparent' && typeof value === 'string' ? [[name, value]] : [];
  });
  const { contentEncoding = 'identity' } = rest;
  return {
    place: messageId ?? createHash('sha256').update(body).digest('base64url'),
    id: messageId,
    address: routingKey,
    headers: {
      ...Object.fromEntries(given),
      ...(contentType === undefined ? {} : { 'content-type': contentType }),
      ...(contentEncoding === 'identity' ? {} : { 'content-encoding': contentEncoding }),
    },
    body,
  };
}

/** AMQP knows types: times and integers as attributes of a CloudEvent, in the forms of the standard. */
function textOf(value: unknown): string {
  return value instanceof Date ? value.toISOString() : String(value);
}

/** Read as an HTTP header, it is this text again: values are not encoded in AMQP. */
function percentEncoded(text: string): string {
  return text.replace(/[^\x20\x21\x23\x24\x26-\x7e]+/gu, encodeURIComponent);
}
