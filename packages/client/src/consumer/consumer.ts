import { type Duration, milliseconds } from '../duration.ts';
import type { OnEvent } from '../events.ts';
import type { Api } from '../http/api.ts';
import { type Batch, BatchQueue } from './batch-queue.ts';
import { FetchLoop } from './fetch-loop.ts';
import { GroupApi } from './group-api.ts';
import type { Handler } from './handler.ts';
import { HandlerPool } from './handler-pool.ts';
import type { Partition } from './partition.ts';
import type { Work } from './work.ts';

export interface ConsumerOptions {
  readonly group: string;
  /** The topics that this consumer can handle: it fails if the group reads another one. Default: any. */
  readonly topics?: readonly string[] | undefined;
  /** Shown by the service. */
  readonly name?: string | undefined;
  /** How many keys are handled at a time; default 32. */
  readonly concurrency?: number | undefined;
  /** How many messages are fetched ahead; default 1000. */
  readonly prefetch?: number | undefined;
  /**
   * Default 5 min. A handler that takes longer gets its signal aborted and the member falls silent. If the handler does not
   * end within the session of the group, others get the work and `run` fails.
   */
  readonly handlerTimeout?: Duration | undefined;
  /** The waits before a failed message is handled again; after the last one it is rejected. Default 1 s, 5 s, 30 s. */
  readonly retry?: readonly Duration[] | undefined;
  /** How long a poll waits for messages, up to 50 s and half the session of the group; default 20 s. */
  readonly wait?: Duration | undefined;
  /** Bytes per poll. */
  readonly maxBytes?: number | undefined;
}

export interface StopOptions {
  /** What is not finished by then is left to other members; default 20 s. */
  readonly timeout?: Duration | undefined;
}

const STOP_TIMEOUT = '20s';

/** B12: one member of a consumer group. */
export class Consumer {
  private readonly group: GroupApi;
  private readonly concurrency: number;
  private readonly prefetch: number;
  private readonly handlerTimeoutMs: number;
  private readonly retryMs: readonly number[];
  private readonly waitMs: number;
  private loop: FetchLoop | undefined;
  private running: Promise<void> = Promise.resolve();

  /** @internal */
  constructor(
    api: Api,
    private readonly options: ConsumerOptions,
    private readonly onEvent: OnEvent,
  ) {
    const { concurrency = 32, prefetch = 1000, handlerTimeout = '5m', retry = ['1s', '5s', '30s'] } = options;
    this.group = new GroupApi(api, options.group);
    this.concurrency = positive(concurrency, 'concurrency');
    this.prefetch = positive(prefetch, 'prefetch');
    this.handlerTimeoutMs = milliseconds(handlerTimeout, 'handlerTimeout');
    this.retryMs = retry.map((wait) => milliseconds(wait, 'retry'));
    this.waitMs = milliseconds(options.wait ?? '20s', 'wait');
  }

  /**
   * Joins the group and handles its messages: those of one key one after the other, `concurrency` keys at a time. Resolves when
   * it was stopped and has left the group; fails when the service refuses it for good.
   */
  async run<Payload = unknown>(
    handler: Handler<Payload>,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<void> {
    const { concurrency, prefetch, handlerTimeoutMs, retryMs, onEvent } = this;
    const options = { concurrency, prefetch, handlerTimeoutMs, retryMs, onEvent };
    await this.start(this.loopOf(new HandlerPool(handler as Handler, options)), signal);
  }

  /** Joins the group and returns its messages in batches, each of one partition. Leaving the loop leaves the group. */
  async *batches<Payload = unknown>({
    signal,
  }: {
    signal?: AbortSignal;
  } = {}): AsyncGenerator<Batch<Payload>, void, undefined> {
    const { prefetch, handlerTimeoutMs } = this;
    const commit = (partition: Partition) => loop.commit(partition);
    const queue = new BatchQueue({ prefetch, handlerTimeoutMs, commit });
    const loop = this.loopOf(queue);
    const running = this.start(loop, signal);
    running.then(
      () => queue.end(),
      (error: unknown) => queue.fail(error),
    );
    try {
      for (let batch = await queue.next(); batch; batch = await queue.next()) yield batch as Batch<Payload>;
      await running;
    } finally {
      queue.finish();
      await this.stop();
    }
  }

  /** Stops polling, finishes what was started, commits and leaves the group. */
  async stop({ timeout = STOP_TIMEOUT }: StopOptions = {}): Promise<void> {
    await this.loop?.stop(milliseconds(timeout, 'timeout'));
    await this.running;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  private loopOf(work: Work): FetchLoop {
    const { group, name, topics, maxBytes } = this.options;
    const { waitMs, onEvent } = this;
    return new FetchLoop(this.group, work, { group, name, topics, waitMs, maxBytes, onEvent });
  }

  private async start(loop: FetchLoop, signal: AbortSignal | undefined): Promise<void> {
    if (this.loop) throw new TypeError('this consumer is running already');
    if (signal?.aborted) return;
    const stop = () => void loop.stop(milliseconds(STOP_TIMEOUT, 'timeout'));
    signal?.addEventListener('abort', stop);
    this.loop = loop;
    const run = loop.run();
    // `stop` waits for the end, whatever it is; the caller of `run` gets the error.
    this.running = run.catch(() => undefined);
    try {
      await run;
    } finally {
      signal?.removeEventListener('abort', stop);
      this.loop = undefined;
    }
  }
}

function positive(value: number, option: string): number {
  if (Number.isInteger(value) && value > 0) return value;
  throw new TypeError(`${option} must be a whole number above 0, not ${value}`);
}
