import { AMQPError, type Connection, type Publisher } from 'rabbitmq-client';
import type { CallFailure } from '../../webhooks/call-failures.ts';
import { cloudEventAttributes, type Delivery, traceOf } from '../../webhooks/webhook-request.ts';
import type { BrokerOf } from '../broker.ts';
import { type Sink, SinkError, type SinkKind } from '../sink.ts';
import { filled } from '../template.ts';
import { rabbitConnection } from './rabbit-connection.ts';

type RabbitBroker = BrokerOf<'rabbitmq'>;

const MAX_ROUTING_KEY_BYTES = 255;

/** Publishes to an exchange; delivered when the broker has confirmed, and some queue has taken the message. */
export const RABBIT_SINKS: SinkKind<'rabbitmq'> = {
  connect: async (broker, options) => new RabbitSink(broker, await rabbitConnection(broker, options)),
  failureOf: rabbitFailure,
};

class RabbitSink implements Sink {
  isClosed = false;
  private readonly publisher: Publisher;
  /** Ids of messages that no queue took. */
  private readonly returned = new Set<string>();
  private blocked: string | undefined;

  constructor(
    private readonly broker: RabbitBroker,
    private readonly connection: Connection,
  ) {
    this.publisher = connection.createPublisher({ confirm: true, maxAttempts: 1 });
    this.publisher.on('basic.return', ({ messageId }) => messageId && this.returned.add(messageId));
    connection.on('error', () => {
      this.isClosed = true;
    });
    connection.on('connection.blocked', (reason) => {
      this.blocked = reason;
    });
    connection.on('connection.unblocked', () => {
      this.blocked = undefined;
    });
  }

  async publish(delivery: Delivery): Promise<string> {
    const { exchange = '', routingKey: template = '{key}' } = this.broker;
    const routingKey = filled(template, delivery);
    if (Buffer.byteLength(routingKey) > MAX_ROUTING_KEY_BYTES)
      throw failed('rejected', `its routing key has more than ${MAX_ROUTING_KEY_BYTES} bytes`);
    if (this.blocked !== undefined) throw failed('setup', `the broker blocks publishers: ${this.blocked}`);
    await this.publisher.send(
      { exchange, routingKey, mandatory: true, ...propertiesOf(delivery) },
      Buffer.from(delivery.payload),
    );
    // A message that was returned is confirmed, too; the client reports the return one turn of the event loop later.
    await new Promise(setImmediate);
    if (this.returned.delete(delivery.deliveryId))
      throw failed(
        'rejected',
        `no queue takes the routing key ${JSON.stringify(routingKey)}; bind one to ${nameOf(exchange)}`,
      );
    return `confirmed by ${nameOf(exchange)}`;
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.connection.unsafeDestroy();
  }
}

/** In memory and on disk: a queue that survives a restart keeps the message. */
function propertiesOf(delivery: Delivery) {
  const attributes = cloudEventAttributes(delivery).map(([name, value]) => [`cloudEvents_${name}`, value]);
  return {
    messageId: delivery.deliveryId,
    type: delivery.type,
    contentType: 'application/json',
    durable: true,
    headers: { ...Object.fromEntries(attributes), traceparent: traceOf(delivery) },
  };
}

function nameOf(exchange: string): string {
  return exchange === '' ? 'the default exchange' : `exchange ${exchange}`;
}

function failed(reason: CallFailure['reason'], detail: string): SinkError {
  return new SinkError({ reason, detail });
}

const BY_CODE: Readonly<Record<string, CallFailure['reason']>> = {
  ACCESS_REFUSED: 'auth',
  NOT_FOUND: 'setup',
  NOT_ALLOWED: 'setup',
  PRECONDITION_FAILED: 'setup',
  RESOURCE_ERROR: 'setup',
  INTERNAL_ERROR: 'setup',
  CONNECTION_FORCED: 'reset',
  CONTENT_TOO_LARGE: 'rejected',
  CONNECTION_TIMEOUT: 'timeout',
  SOCKET_TIMEOUT: 'timeout',
  TIMEOUT: 'timeout',
};

function rabbitFailure(error: unknown): CallFailure | undefined {
  if (!(error instanceof AMQPError)) return undefined;
  const { code, message, cause } = error;
  if (code === 'NACK') return { reason: 'setup', detail: 'the broker did not take it: a queue may be full' };
  if (/refused for user/.test(message)) return { reason: 'auth', detail: message };
  const known = BY_CODE[code];
  if (known) return { reason: known, detail: message };
  // Errors of the socket are below it.
  if (cause instanceof Error) return undefined;
  if (/^(CONN_CLOSE|CH_CLOSE|CLOSING|CLOSED|READ_END)$/.test(code))
    return { reason: 'reset', detail: 'the connection was closed' };
  return { reason: 'protocol', detail: `${code}: ${message}` };
}
