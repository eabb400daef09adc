import { setImmediate } from 'node:timers/promises';
import { compatibilityPartitioner, type MessageToProduce, ProduceAcks } from '@platformatic/kafka';
import { cloudEventAttributes, type Delivery, traceOf } from '../../webhooks/webhook-request.ts';
import type { BrokerOf } from '../broker.ts';
import type { Sink, SinkKind } from '../sink.ts';
import { isTimeout, kafkaFailure } from './kafka-failures.ts';
import { KafkaProducer } from './kafka-producer.ts';
import { type PartitionResult, resultsOf } from './kafka-results.ts';

type KafkaBroker = BrokerOf<'kafka'>;

/** A broker handles the requests of a connection one after the other, so messages that wait share one. */
const MAX_REQUESTS = 2;
const MAX_MESSAGES = 500;
/** Well below the 1 MiB that brokers accept by default. */
const MAX_BYTES = 256 * 1024;

interface Waiting {
  readonly message: MessageToProduce & { readonly partition: number };
  readonly bytes: number;
  resolve(detail: string): void;
  reject(error: unknown): void;
}

/** Publishes to a topic; delivered when all in-sync replicas have it. */
export const KAFKA_SINKS: SinkKind<'kafka'> = {
  async connect(broker, options) {
    const producer = new KafkaProducer(broker, { ...options, name: options.name.replaceAll(' ', '-') });
    try {
      await producer.connectToLeaders();
    } catch (error) {
      producer.end();
      throw error;
    }
    return new KafkaSink(broker, producer);
  },
  failureOf: kafkaFailure,
};

class KafkaSink implements Sink {
  private waiting: Waiting[] = [];
  private requests = 0;
  private isScheduled = false;

  constructor(
    private readonly broker: KafkaBroker,
    private readonly producer: KafkaProducer,
  ) {}

  get isClosed(): boolean {
    return this.producer.isEnded;
  }

  publish(delivery: Delivery): Promise<string> {
    return new Promise((resolve, reject) => {
      const message = messageOf(delivery, this.broker.topic);
      this.waiting.push({ message, bytes: delivery.payload.length, resolve, reject });
      void this.sendSoon();
    });
  }

  async close(): Promise<void> {
    this.producer.end();
  }

  /** What is published in the same turn of the event loop goes together. */
  private async sendSoon(): Promise<void> {
    if (this.isScheduled) return;
    this.isScheduled = true;
    await setImmediate();
    this.isScheduled = false;
    while (this.requests < MAX_REQUESTS && this.waiting.length > 0) void this.send(this.take());
  }

  private async send(batch: readonly Waiting[]): Promise<void> {
    this.requests += 1;
    await this.produce(batch);
    this.requests -= 1;
    if (this.waiting.length > 0) void this.sendSoon();
  }

  private take(): Waiting[] {
    let bytes = 0;
    const end = this.waiting.findIndex((one, at) => {
      bytes += one.bytes;
      return at > 0 && (at >= MAX_MESSAGES || bytes > MAX_BYTES);
    });
    return this.waiting.splice(0, end === -1 ? this.waiting.length : end);
  }

  /** Never throws. */
  private async produce(batch: readonly Waiting[]): Promise<void> {
    const results = await this.resultsOf(batch);
    for (const [partition, together] of this.byPartition(batch)) {
      const result = results(partition);
      if ('offset' in result) this.acknowledge(together, partition, result.offset);
      else if (result.isOfMessage && together.length > 1) await this.produceOneByOne(together);
      else for (const one of together) one.reject(result.error);
    }
  }

  private async resultsOf(batch: readonly Waiting[]): Promise<(partition: number) => PartitionResult> {
    try {
      const messages = batch.map(({ message }) => message);
      return resultsOf(await this.producer.send({ messages, acks: ProduceAcks.ALL }));
    } catch (error) {
      this.producer.clearMetadata();
      // The client cannot read what comes after a response that was too late.
      if (isTimeout(error)) this.producer.isEnded = true;
      return resultsOf(error);
    }
  }

  private acknowledge(together: readonly Waiting[], partition: number, offset: bigint): void {
    const { topic } = this.broker;
    for (const [at, { resolve }] of together.entries())
      resolve(`topic ${topic}, partition ${partition}, offset ${offset + BigInt(at)}`);
  }

  /** One that the broker does not take fails all of its partition that came with it. */
  private async produceOneByOne(together: readonly Waiting[]): Promise<void> {
    for (const one of together) await this.produce([one]);
  }

  private byPartition(batch: readonly Waiting[]): ReadonlyMap<number, readonly Waiting[]> {
    const partitions = this.producer.partitionsOf(this.broker.topic);
    const groups = new Map<number, Waiting[]>();
    for (const one of batch) {
      const partition = one.message.partition % partitions;
      const group = groups.get(partition) ?? [];
      if (group.push(one) === 1) groups.set(partition, group);
    }
    return groups;
  }
}

/** The partition is that of the usual clients: the hash of the key, which the client reduces to the number of partitions. */
function messageOf(delivery: Delivery, topic: string): Waiting['message'] {
  const key = Buffer.from(delivery.key);
  const headers = new Map(
    [
      ...cloudEventAttributes(delivery).map(([name, value]) => [`ce_${name}`, value]),
      ['content-type', 'application/json'],
      ['delivery-id', delivery.deliveryId],
      ['traceparent', traceOf(delivery)],
    ].map(([name, value]) => [Buffer.from(name!), Buffer.from(value!)]),
  );
  const value = Buffer.from(delivery.payload);
  const partition = compatibilityPartitioner(undefined as never, key);
  return { topic, key, value, headers, partition };
}
