import { type Duration, milliseconds } from '../duration.ts';
import { clientError, SluiceError } from '../errors.ts';
import type { OnEvent } from '../events.ts';
import type { Api } from '../http/api.ts';
import { backoff } from '../http/backoff.ts';
import { pause } from '../http/pause.ts';
import { type OutgoingMessage, outgoing } from './outgoing.ts';
import { refusedMessages } from './refusal.ts';
import { type Pending, type Range, SendQueue, type Sent } from './send-queue.ts';

export interface ProducerOptions {
  /** The same after a restart, and not used by two processes at a time. */
  readonly id: string;
  /** How long a message waits for others to be sent with it; default 5 ms. */
  readonly linger?: Duration | undefined;
  /** Messages per request, up to 1000; default 500. */
  readonly maxBatch?: number | undefined;
  /** How often a request is repeated before its sends fail; default 8: about 20 seconds of waiting. */
  readonly retries?: number | undefined;
}

interface Outcome {
  readonly id: string;
  readonly duplicate?: boolean;
  readonly gap?: Range;
}

/** Characters; BATCH_BODY_LIMIT is in bytes. A batch that is refused as too large is halved. */
const MAX_LENGTH = 1_048_576;

/**
 * B5: numbers its messages and repeats a request, unchanged, until it knows its result. The service knows a repeat by its
 * numbers, so nothing is stored twice. One request is in flight at a time: its numbers are the next ones, and the order of
 * sends is the order of acceptance.
 */
export class Producer {
  private readonly queue: SendQueue;
  private readonly lingerMs: number;
  private readonly retries: number;
  /** The next number; undefined: the service must be asked. */
  private next: number | undefined;
  private flushing: Promise<void> | undefined;
  private flushNow = new AbortController();
  private closed = false;

  private constructor(
    private readonly api: Api,
    readonly id: string,
    options: ProducerOptions,
    private readonly onEvent: OnEvent,
  ) {
    const { linger = '5ms', maxBatch = 500, retries = 8 } = options;
    if (!(maxBatch >= 1 && maxBatch <= 1000)) throw new TypeError('maxBatch must be between 1 and 1000');
    this.queue = new SendQueue(maxBatch, MAX_LENGTH);
    this.lingerMs = milliseconds(linger, 'linger');
    this.retries = retries;
  }

  /** @internal */
  static async open(api: Api, options: ProducerOptions, onEvent: OnEvent): Promise<Producer> {
    const producer = new Producer(api, options.id, options, onEvent);
    producer.next = await producer.askNext();
    return producer;
  }

  /** Resolves when the message is committed and durable. */
  async send(message: OutgoingMessage): Promise<Sent> {
    if (this.closed) throw clientError('closed', 'Closed', 'This producer is closed.');
    const item = outgoing(message);
    return new Promise((resolve, reject) => {
      this.queue.add({ ...item, renumbered: 0, resolve, reject });
      if (this.queue.isFull) this.flushNow.abort();
      this.flushing ??= this.flushAll();
    });
  }

  /** Sends what waits without lingering; resolves when everything sent so far has its result. */
  async flush(): Promise<void> {
    if (this.flushing !== undefined) this.flushNow.abort();
    await this.flushing;
  }

  /** Takes no more messages and flushes. A send that fails rejects its own promise. */
  async close(): Promise<void> {
    this.closed = true;
    await this.flush();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async flushAll(): Promise<void> {
    await pause(this.lingerMs, this.flushNow.signal);
    // What arrives while a request is in flight has waited long enough when it returns.
    while (!this.queue.isEmpty) await this.sendBatch(this.queue.take());
    this.flushNow = new AbortController();
    this.flushing = undefined;
  }

  private async sendBatch(batch: readonly Pending[]): Promise<void> {
    try {
      const first = this.next ?? (await this.askNext());
      this.next = first;
      const { messages } = await this.api.call<{ messages: Outcome[] }>('POST', batch[0]!.path, {
        body: `{"messages":[${batch.map(({ text }) => text).join(',')}]}`,
        headers: { 'producer-id': encodeHeader(this.id), 'producer-sequence': String(first) },
        retries: this.retries,
      });
      this.next = first + batch.length;
      const taken = this.settle(batch, messages);
      if (taken.length > 0) await this.renumber(taken);
    } catch (error) {
      this.refuse(batch, error);
    }
  }

  /** Returns those whose number another message has: of a predecessor, or of a process with the same producer id. */
  private settle(batch: readonly Pending[], outcomes: readonly Outcome[]): Pending[] {
    return batch.filter((item, index) => {
      const { id, duplicate = false, gap } = outcomes[index]!;
      if (id === item.id) item.resolve({ id, duplicate, gap });
      return id !== item.id;
    });
  }

  /** They were not stored. Their ids stay, so no renumbering can store them twice. */
  private async renumber(taken: readonly Pending[]): Promise<void> {
    this.next = undefined;
    const detail = `Numbers of producer "${this.id}" were used for other messages: is it used by two processes?`;
    this.onEvent({ event: 'producer.renumbered', detail: `${detail} ${taken.length} sends get new ones.` });
    for (const item of taken) item.renumbered += 1;
    const given = taken.filter((item) => item.renumbered <= this.retries);
    for (const item of taken)
      if (!given.includes(item)) item.reject(clientError('number-taken', 'Number taken', detail));
    this.queue.putBack(given);
    // Two processes that want the next number at the same time again and again must get out of step.
    await pause(backoff(taken[0]!.renumbered - 1));
  }

  /** A refusal names single messages: only these fail. Without a response nobody knows which numbers are used. */
  private refuse(batch: readonly Pending[], error: unknown): void {
    const known = error instanceof SluiceError && error.status !== undefined && !error.retryable;
    if (!known) this.next = undefined;
    const tooLarge = known && error.status === 413 && batch.length > 1;
    if (tooLarge) this.queue.shrink(batch);
    const named = known ? refusedMessages(error) : new Map<number, SluiceError>();
    const rest = batch.filter((item, index) => {
      if (tooLarge || (named.size > 0 && !named.has(index))) return true;
      item.reject(named.get(index) ?? error);
      return false;
    });
    this.queue.putBack(rest);
  }

  private async askNext(): Promise<number> {
    const path = `/v1/producers/${encodeURIComponent(this.id)}`;
    const { last } = await this.api.call<{ last: number }>('GET', path, { retries: this.retries });
    return last + 1;
  }
}

/** Headers carry bytes: beyond ASCII they are UTF-8, written as Latin-1. */
function encodeHeader(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}
