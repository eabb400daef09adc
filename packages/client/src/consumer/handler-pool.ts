import { textOf } from '../errors.ts';
import type { OnEvent } from '../events.ts';
import { decide } from './decide.ts';
import type { Handler, Item } from './handler.ts';
import { KeyChains } from './key-chains.ts';
import type { Partition } from './partition.ts';
import { Run } from './run.ts';
import type { Message } from './wire.ts';
import type { Progress, Work } from './work.ts';

export interface PoolOptions {
  readonly concurrency: number;
  readonly prefetch: number;
  readonly handlerTimeoutMs: number;
  readonly retryMs: readonly number[];
  readonly onEvent: OnEvent;
}

/** Messages behind failing keys do not count for the buffer, up to this many times its size. */
const PARKED_FACTOR = 4;

/** Runs the handler: one message of a key at a time, `concurrency` keys at a time. */
export class HandlerPool implements Work {
  private progress: Progress = { advanced: () => undefined, wake: () => undefined };
  private readonly chains = new KeyChains<Item>();
  /** In the order started. */
  private readonly runs = new Set<Run>();
  private readonly timers = new Set<ReturnType<typeof setTimeout>>();
  /** While draining: the last offset of each partition that is still to be handled. */
  private lastOffsets: Map<Partition, number> | undefined;
  private readonly started = new Map<Partition, number>();
  private drainEnded: () => void = () => undefined;
  private ended = false;

  constructor(
    private readonly handler: Handler,
    private readonly options: PoolOptions,
  ) {}

  begin(progress: Progress): void {
    this.progress = progress;
  }

  get overdue(): string | undefined {
    for (const run of this.runs) if (run.isOverdue) return this.describe(run.item);
    return undefined;
  }

  room(): number {
    const { prefetch } = this.options;
    const { size, parked } = this.chains;
    const free = Math.min(prefetch - (size - parked), PARKED_FACTOR * prefetch - size);
    return free >= prefetch / 2 ? free : 0;
  }

  take(partition: Partition, messages: readonly Message[]): void {
    for (const message of messages) {
      const key = `${partition.fence}/${partition.name}/${message.key}`;
      this.chains.add(key, { partition, message, key, tries: 0 });
    }
    this.startNext();
  }

  drop(partition: Partition): void {
    this.chains.drop((item) => item.partition === partition);
    this.started.delete(partition);
    this.checkDrained();
    this.startNext();
    this.progress.wake();
  }

  /**
   * What was started is finished, and what lies before it in its partition: only then can it be committed, and nothing is
   * handled twice. The rest is left to others.
   */
  drain(): Promise<void> {
    this.lastOffsets = new Map(this.started);
    return new Promise((resolve) => {
      this.drainEnded = resolve;
      this.checkDrained();
    });
  }

  end(): void {
    this.ended = true;
    for (const timer of this.timers) clearTimeout(timer);
    for (const run of this.runs) run.end();
  }

  private startNext(): void {
    while (!this.ended && this.runs.size < this.options.concurrency && this.overdue === undefined) {
      const item = this.chains.next();
      if (!item) return;
      // Not started, and its key stays as it is: nothing of this key is handled here any more.
      if (this.lastOffsets && !(item.message.offset <= (this.lastOffsets.get(item.partition) ?? -1)))
        continue;
      void this.handle(item);
    }
  }

  private async handle(item: Item): Promise<void> {
    item.tries += 1;
    const { offset } = item.message;
    this.started.set(item.partition, Math.max(offset, this.started.get(item.partition) ?? -1));
    const run = new Run(item, this.options.handlerTimeoutMs, () => this.reportOverdue(item));
    this.runs.add(run);
    const error = await run.call(this.handler);
    this.runs.delete(run);
    if (!item.partition.isLost && !this.ended) this.settle(item, error);
    if (run.isOverdue || this.room() > 0) this.progress.wake();
    this.startNext();
    this.checkDrained();
  }

  private settle(item: Item, error: { readonly cause: unknown } | undefined): void {
    const { partition, message, key } = item;
    const decision = error && decide(error.cause, item.tries, this.options.retryMs);
    if (decision) this.report(item, error.cause, decision.kind);
    if (decision?.kind === 'retry') {
      this.retryLater(item, decision.afterMs);
      return;
    }
    if (decision) partition.reject(message.offset, decision.reason);
    this.chains.settle(key);
    if (partition.finish(message.offset)) this.progress.advanced(partition);
  }

  private retryLater({ key }: Item, afterMs: number): void {
    this.chains.park(key);
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      this.chains.resume(key);
      this.startNext();
    }, afterMs);
    this.timers.add(timer);
  }

  private report({ partition, message, tries }: Item, error: unknown, outcome: string): void {
    const detail = `offset ${message.offset} of ${partition.name}, try ${tries}, ${outcome}: ${textOf(error)}`;
    this.options.onEvent({ event: 'consumer.handler-failed', detail, error });
  }

  private reportOverdue(item: Item): void {
    this.options.onEvent({ event: 'consumer.handler-overdue', detail: this.describe(item) });
    this.progress.wake();
  }

  private describe({ partition, message }: Item): string {
    const { handlerTimeoutMs } = this.options;
    return `The handler of offset ${message.offset} of ${partition.name} takes longer than ${handlerTimeoutMs} ms`;
  }

  private checkDrained(): void {
    if (!this.lastOffsets || this.runs.size > 0) return;
    for (const [partition, offset] of this.lastOffsets)
      if (!partition.isLost && partition.reached < offset) return;
    this.drainEnded();
  }
}
