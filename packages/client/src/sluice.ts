import { Consumer, type ConsumerOptions } from './consumer/consumer.ts';
import { type Duration, milliseconds } from './duration.ts';
import type { OnEvent } from './events.ts';
import { Api } from './http/api.ts';
import { type Fetch, fetchTransport, type Transport } from './http/transport.ts';
import { Producer, type ProducerOptions } from './producer/producer.ts';
import { Queue } from './queue/queue.ts';

export interface SluiceOptions {
  /** One URL, or those of several replicas: a call that fails at one is sent to the next. */
  readonly url: string | readonly string[];
  /** `sk_…`; absent for a service that runs without keys. */
  readonly apiKey?: string | undefined;
  /** How long a single request may take; default 10 s. Long polls get the time of their wait in addition. */
  readonly timeout?: Duration | undefined;
  /** Retries, lost partitions and the like, for a log. An exception in it is not caught. */
  readonly onEvent?: OnEvent | undefined;
  /** In place of the global `fetch`. */
  readonly fetch?: Fetch | undefined;
}

/** The service as producers and consumers see it. Holds no connection; create one per process. */
export class Sluice {
  protected readonly api: Api;
  protected readonly onEvent: OnEvent;

  constructor(options: SluiceOptions, transport: Transport = fetchTransport(options.fetch)) {
    this.onEvent = options.onEvent ?? (() => undefined);
    this.api = new Api({
      urls: typeof options.url === 'string' ? [options.url] : options.url,
      apiKey: options.apiKey,
      transport,
      timeoutMs: milliseconds(options.timeout ?? '10s', 'timeout'),
      onEvent: this.onEvent,
    });
  }

  /** Resolves when the service has told the producer its last number. */
  producer(options: ProducerOptions): Promise<Producer> {
    return Producer.open(this.api, options, this.onEvent);
  }

  /** A member of a consumer group. */
  consumer(options: ConsumerOptions): Consumer {
    return new Consumer(this.api, options, this.onEvent);
  }

  /** A listener with the mode `pull`. */
  queue(listener: string): Queue {
    return new Queue(this.api, listener, this.onEvent);
  }

  /** Any route of the HTTP API. A GET, PUT or DELETE is retried; a POST is not, because it may have taken effect. */
  call<Body = unknown>(method: string, path: string, body?: unknown): Promise<Body> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return this.api.call<Body>(method, path, { body: text, retries: method === 'POST' ? 0 : CALL_RETRIES });
  }
}

const CALL_RETRIES = 4;
