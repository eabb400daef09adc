import { type Duration, milliseconds } from '../duration.ts';
import type { OnEvent } from '../events.ts';
import type { Api } from '../http/api.ts';
import type { QueueHandler } from './queue-message.ts';
import { QueueRun } from './queue-run.ts';

export interface QueueOptions {
  /** How many messages are handled at a time; default 10. */
  readonly concurrency?: number | undefined;
  /** How long a pull waits for messages, up to 50 s; default 20 s. */
  readonly wait?: Duration | undefined;
  /** By how much the lease of a message that takes long is extended, again and again; default: the `lease` of the listener. */
  readonly lease?: Duration | undefined;
  /** A message that takes longer is left to others: its lease is not extended any more. Default 5 min. */
  readonly handlerTimeout?: Duration | undefined;
  /** Bytes per pull. */
  readonly maxBytes?: number | undefined;
  /** As `stop`. */
  readonly signal?: AbortSignal | undefined;
}

const STOP_TIMEOUT = '20s';

/** A listener with the mode `pull`, as a work queue. */
export class Queue {
  private current: QueueRun | undefined;
  private running: Promise<void> = Promise.resolve();

  /** @internal */
  constructor(
    private readonly api: Api,
    readonly listener: string,
    private readonly onEvent: OnEvent,
  ) {}

  /** Handles messages until it is stopped; fails when the service refuses it for good. */
  async run<Payload = unknown>(
    handler: QueueHandler<Payload>,
    { signal, ...options }: QueueOptions = {},
  ): Promise<void> {
    if (this.current) throw new TypeError('this queue is running already');
    const { concurrency = 10, wait = '20s', lease, handlerTimeout = '5m', maxBytes } = options;
    if (!(Number.isInteger(concurrency) && concurrency > 0))
      throw new TypeError(`concurrency must be a whole number above 0, not ${concurrency}`);
    const run = new QueueRun(this.api, handler as QueueHandler, {
      listener: this.listener,
      concurrency,
      maxBytes,
      waitMs: milliseconds(wait, 'wait'),
      leaseMs: lease === undefined ? undefined : milliseconds(lease, 'lease'),
      handlerTimeoutMs: milliseconds(handlerTimeout, 'handlerTimeout'),
      onEvent: this.onEvent,
    });
    if (!signal?.aborted) await this.runUntilStopped(run, signal);
  }

  /** Stops pulling and finishes what was started; what is not finished by then is handed out again when its lease ends. */
  async stop({ timeout = STOP_TIMEOUT }: { readonly timeout?: Duration } = {}): Promise<void> {
    await this.current?.stop(milliseconds(timeout, 'timeout'));
    await this.running;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  private async runUntilStopped(run: QueueRun, signal: AbortSignal | undefined): Promise<void> {
    const stop = () => void run.stop(milliseconds(STOP_TIMEOUT, 'timeout'));
    signal?.addEventListener('abort', stop);
    this.current = run;
    const ended = run.run();
    // `stop` waits for the end, whatever it is; the caller of `run` gets the error.
    this.running = ended.catch(() => undefined);
    try {
      await ended;
    } finally {
      signal?.removeEventListener('abort', stop);
      this.current = undefined;
    }
  }
}
