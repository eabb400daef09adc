import { clientError } from '../errors.ts';
import type { Partition } from './partition.ts';
import type { Message } from './wire.ts';
import type { Progress, Work } from './work.ts';

/** Messages of one partition, in order. */
export interface Batch<Payload = unknown> {
  readonly topic: string;
  readonly partition: number;
  /** Grows with every hand-over of the partition: store it with your own writes to refuse those of a former owner. */
  readonly fence: number;
  readonly messages: readonly Message<Payload>[];
  /** Aborts when the partition is lost and when the batch takes longer than `handlerTimeout`. */
  readonly signal: AbortSignal;
  /**
   * Everything up to this offset of the partition (default: all of the batch) is processed. Resolves when it is recorded;
   * fails with `partition-lost` if the partition belongs to another member.
   */
  commit(offset?: number): Promise<void>;
  /** The message becomes a dead letter of the group with the commit that covers it. */
  reject(offset: number, reason: string): void;
}

export interface BatchQueueOptions {
  readonly prefetch: number;
  readonly handlerTimeoutMs: number;
  /** Fails unless the service has recorded what the partition can commit. */
  readonly commit: (partition: Partition) => Promise<void>;
}

interface Fetched {
  readonly partition: Partition;
  readonly messages: readonly Message[];
}

/** Hands out batches one after the other. */
export class BatchQueue implements Work {
  private progress: Progress = { advanced: () => undefined, wake: () => undefined };
  private queue: Fetched[] = [];
  private current: { readonly name: string; readonly sinceMs: number; readonly end: () => void } | undefined;
  private isDraining = false;
  private failure: { readonly error: unknown } | undefined;
  private arrived: () => void = () => undefined;
  private drained: () => void = () => undefined;
  private ended = false;

  constructor(private readonly options: BatchQueueOptions) {}

  begin(progress: Progress): void {
    this.progress = progress;
  }

  get overdue(): string | undefined {
    const { handlerTimeoutMs } = this.options;
    const isOverdue = this.current && performance.now() - this.current.sinceMs > handlerTimeoutMs;
    return isOverdue
      ? `A batch of ${this.current!.name} takes longer than ${handlerTimeoutMs} ms`
      : undefined;
  }

  room(): number {
    const { prefetch } = this.options;
    const free = prefetch - this.queue.reduce((sum, { messages }) => sum + messages.length, 0);
    return free >= prefetch / 2 ? free : 0;
  }

  take(partition: Partition, messages: readonly Message[]): void {
    this.queue.push({ partition, messages });
    this.arrived();
  }

  drop(partition: Partition): void {
    this.queue = this.queue.filter((fetched) => fetched.partition !== partition);
    this.progress.wake();
  }

  /** Waits for the batch that is being worked on. */
  drain(): Promise<void> {
    this.isDraining = true;
    this.arrived();
    return new Promise((resolve) => {
      this.drained = resolve;
      if (!this.current) resolve();
    });
  }

  end(): void {
    this.ended = true;
    this.arrived();
  }

  fail(error: unknown): void {
    this.failure = { error };
    this.arrived();
  }

  /** The batch before is done, committed or not. Undefined: there are no more. */
  async next(): Promise<Batch | undefined> {
    this.finish();
    for (;;) {
      if (this.failure) throw this.failure.error;
      if (this.isDraining || this.ended) return undefined;
      const fetched = this.queue.shift();
      if (fetched) return this.open(fetched);
      await new Promise<void>((resolve) => {
        this.arrived = resolve;
      });
    }
  }

  finish(): void {
    this.current?.end();
    this.current = undefined;
    this.drained();
    this.progress.wake();
  }

  private open({ partition, messages }: Fetched): Batch {
    const controller = new AbortController();
    const { handlerTimeoutMs } = this.options;
    const late = `The batch took longer than ${handlerTimeoutMs} ms.`;
    const timer = setTimeout(
      () => controller.abort(clientError('timeout', 'Handler timeout', late)),
      handlerTimeoutMs,
    );
    const unfollow = partition.onLost(() => {
      controller.abort(clientError('partition-lost', 'Partition lost', `${partition.name} was lost.`));
    });
    const end = () => {
      clearTimeout(timer);
      unfollow();
    };
    this.current = { name: partition.name, sinceMs: performance.now(), end };
    return {
      topic: partition.topic,
      partition: partition.partition,
      fence: partition.fence,
      messages,
      signal: controller.signal,
      commit: (offset = messages.at(-1)!.offset) => {
        partition.finishThrough(offset);
        return this.options.commit(partition);
      },
      reject: (offset, reason) => partition.reject(offset, reason),
    };
  }
}
