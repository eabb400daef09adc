import { randomUUID } from 'node:crypto';

/*
 * The broker of the source document, "Архитектура: модель Pull": producers send numbered messages to topics; the broker
 * puts each into a partition, by its key or evenly; consumers of a group share the partitions, poll, process and
 * commit; what they reject is in a topic for bad messages. A producer is also a consumer: replies are messages of another topic.
 *
 * The topics and groups are in a file that the broker reads at its start, as in the document.
 */

export const DEFINITIONS = `
topics:
  - { name: orders, partitions: 4 }
  - { name: replies, partitions: 2 }
groups:
  - { name: billing, topics: [orders], session: 5s }
  - { name: audit, topics: [orders], session: 5s }
  - { name: shop, topics: [replies], session: 5s }
`;

const WAIT = '20s';

export interface Message {
  readonly offset: number;
  readonly id: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly attempt: number;
  // biome-ignore lint/suspicious/noExplicitAny: a consumer knows what its topics contain
  readonly payload: any;
}

export interface Outgoing {
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly payload: unknown;
}

export interface Batch {
  readonly topic: string;
  readonly partition: number;
  readonly fence: number;
  readonly from: number;
  readonly to: number;
  readonly count: number;
  readonly messages: readonly Message[];
}

export interface Response {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: depends on the route
  readonly body: any;
}

/** The replicas of the broker behind a load balancer: each request goes to the next one. */
export class Broker {
  private turn = 0;

  constructor(
    private readonly urls: readonly string[],
    private readonly apiKey: string,
  ) {}

  async call(
    method: string,
    path: string,
    body?: unknown,
    more: { headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<Response> {
    this.turn += 1;
    const response = await fetch(`${this.urls[this.turn % this.urls.length]}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...more.headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(more.signal ? { signal: more.signal } : {}),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
  }
}

/** Numbers its messages from 1, so that the broker recognises repeats and gaps. */
export class Producer {
  private sequence = 0;

  constructor(
    private readonly broker: Broker,
    readonly id = randomUUID(),
  ) {}

  /** With a `sequence` of its own: a message that was sent before, or one that comes too early. */
  send(topic: string, message: Outgoing, sequence = this.sequence + 1): Promise<Response> {
    this.sequence = Math.max(this.sequence, sequence);
    const headers = { 'producer-id': this.id, 'producer-sequence': String(sequence) };
    return this.broker.call('POST', `/v1/topics/${topic}/messages`, message, { headers });
  }

  /** All or nothing, in this order. */
  sendAll(topic: string, messages: readonly Outgoing[]): Promise<Response> {
    const headers = { 'producer-id': this.id, 'producer-sequence': String(this.sequence + 1) };
    this.sequence += messages.length;
    return this.broker.call('POST', `/v1/topics/${topic}/messages/batch`, { messages }, { headers });
  }
}

/** A message that the consumer cannot process, and never will. */
export class Reject extends Error {}

export type Handler = (message: Message, batch: Batch) => Promise<void> | void;

/** A member of a group. */
export class Consumer {
  private readonly stopping = new AbortController();
  private running: Promise<void> = Promise.resolve();

  private constructor(
    private readonly broker: Broker,
    private readonly group: string,
    readonly name: string,
    readonly member: string,
  ) {}

  static async register(broker: Broker, group: string, name: string): Promise<Consumer> {
    const { status, body } = await broker.call('POST', `/v1/groups/${group}/members`, { name });
    if (status !== 201) throw new Error(`${status} ${JSON.stringify(body)}`);
    return new Consumer(broker, group, name, body.member);
  }

  /** Polls, processes and commits until it leaves or dies. */
  start(handler: Handler): this {
    this.running = this.run(handler);
    return this;
  }

  /** The next messages, however long it takes. */
  async next(): Promise<readonly Batch[]> {
    for (;;) {
      const batches = await this.poll();
      if (batches.length > 0) return batches;
    }
  }

  private async poll(): Promise<readonly Batch[]> {
    const request = { member: this.member, max: 20, wait: WAIT };
    const { status, body } = await this.broker.call('POST', this.path('poll'), request, {
      signal: this.stopping.signal,
    });
    if (status !== 200) throw new Error(`${this.name}: ${status} ${JSON.stringify(body)}`);
    return body.batches;
  }

  /** `offset` is the last one that was processed. */
  async commit(
    { topic, partition, fence }: Batch,
    offset: number,
    rejected: readonly { offset: number; reason: string }[] = [],
  ): Promise<string> {
    const offsets = [{ topic, partition, fence, offset, rejected }];
    const { body } = await this.broker.call('POST', this.path('commit'), { member: this.member, offsets });
    return body.offsets[0].outcome;
  }

  /** Its partitions go to others at once. */
  async leave(): Promise<void> {
    await this.stop();
    await this.broker.call('DELETE', `${this.path('members')}/${this.member}`);
  }

  /** Without a word: the broker finds out when its session is over. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  private async run(handler: Handler): Promise<void> {
    while (!this.stopping.signal.aborted) {
      const batches = await this.poll().catch((error) => {
        if (!this.stopping.signal.aborted) throw error;
        return [];
      });
      for (const batch of batches) await this.process(batch, handler);
    }
  }

  private async process(batch: Batch, handler: Handler): Promise<void> {
    const rejected: { offset: number; reason: string }[] = [];
    for (const message of batch.messages) {
      try {
        await handler(message, batch);
      } catch (error) {
        if (!(error instanceof Reject)) throw error;
        rejected.push({ offset: message.offset, reason: error.message });
      }
    }
    await this.commit(batch, batch.to, rejected);
  }

  private path(what: string): string {
    return `/v1/groups/${this.group}/${what}`;
  }
}
