import { type Duration, milliseconds } from '../duration.ts';
import { SluiceError, textOf } from '../errors.ts';
import type { OnEvent } from '../events.ts';
import type { Api } from '../http/api.ts';
import { backoff } from '../http/backoff.ts';
import { EarlyPause } from '../http/early-pause.ts';
import { pause } from '../http/pause.ts';
import { HeldMessages } from './held-messages.ts';
import type { QueueHandler, QueueMessage } from './queue-message.ts';
import { Settler } from './settler.ts';
import { verdictOf } from './verdict-of.ts';

export interface RunOptions {
  readonly listener: string;
  readonly concurrency: number;
  readonly maxBytes: number | undefined;
  readonly waitMs: number;
  readonly leaseMs: number | undefined;
  readonly handlerTimeoutMs: number;
  readonly onEvent: OnEvent;
}

type Leased = QueueMessage & { readonly lease: string };

interface Pulled {
  readonly messages: readonly Leased[];
  /** How long each lease is. */
  readonly leaseFor: Duration;
}

/** A limit of the service. */
const MAX_PULLED = 500;

/** From the first pull to the last acknowledgement. Nothing is pulled that does not start at once. */
export class QueueRun {
  private readonly held: HeldMessages;
  private readonly settler: Settler;
  private readonly stopped = new AbortController();
  private readonly early = new EarlyPause();
  /** By lease. */
  private readonly handlers = new Map<string, Promise<void>>();
  private handlerEnded: () => void = () => undefined;
  private failure: { readonly error: unknown } | undefined;
  private failures = 0;
  private giveUp: () => void = () => undefined;
  /** Handlers that still run are not waited for any longer. */
  private readonly givenUp = new Promise<void>((resolve) => {
    this.giveUp = resolve;
  });

  constructor(
    private readonly api: Api,
    private readonly handler: QueueHandler,
    private readonly options: RunOptions,
  ) {
    const { listener, leaseMs, handlerTimeoutMs, onEvent } = options;
    this.settler = new Settler(api, {
      listener,
      onEvent,
      lost: (lease) => this.held.lose(lease),
      failed: (error) => this.fail(error),
    });
    this.held = new HeldMessages({
      leaseMs,
      handlerTimeoutMs,
      extend: (lease, ms) => this.settler.add(lease, { kind: 'extend', by: `${ms}ms` }),
      overdue: (lease) => this.overdue(lease),
    });
  }

  async run(): Promise<void> {
    try {
      while (!this.stopped.signal.aborted) await this.pass();
      await Promise.race([Promise.all(this.handlers.values()), this.givenUp]);
      await this.settler.flush();
    } finally {
      this.held.abortAll();
      this.held.end();
    }
    if (this.failure) throw this.failure.error;
  }

  async stop(timeoutMs: number): Promise<void> {
    this.stopped.abort();
    this.handlerEnded();
    const enough = new AbortController();
    await Promise.race([Promise.all(this.handlers.values()), pause(timeoutMs, enough.signal)]);
    enough.abort();
    this.giveUp();
  }

  private async pass(): Promise<void> {
    const free = this.options.concurrency - this.handlers.size;
    if (free === 0) return this.untilOneEnds();
    try {
      await this.pull(Math.min(free, MAX_PULLED));
      this.failures = 0;
    } catch (error) {
      if (this.stopped.signal.aborted) return;
      if (!(error instanceof SluiceError && error.retryable)) throw error;
      this.options.onEvent({ event: 'request.retried', detail: error.message, error });
      await pause(backoff(this.failures++, error.retryAfter), this.stopped.signal);
    }
  }

  private async pull(max: number): Promise<void> {
    const { listener, waitMs, maxBytes } = this.options;
    const sinceMs = performance.now();
    const path = `/v1/listeners/${encodeURIComponent(listener)}/pull`;
    const { messages, leaseFor } = await this.api.call<Pulled>('POST', path, {
      body: JSON.stringify({ max, wait: `${waitMs}ms`, ...(maxBytes === undefined ? {} : { maxBytes }) }),
      timeoutMs: waitMs + this.api.timeoutMs,
      signal: this.stopped.signal,
    });
    const leaseMs = milliseconds(leaseFor, 'leaseFor');
    for (const message of messages) this.start(message, sinceMs, leaseMs);
    const reply = { isEmpty: messages.length === 0, tookMs: performance.now() - sinceMs, waitMs };
    await this.early.after(reply, this.stopped.signal);
  }

  private start({ lease, ...message }: Leased, sinceMs: number, leaseMs: number): void {
    const signal = this.held.add(lease, sinceMs, leaseMs);
    const handling = this.handle(lease, message, signal).finally(() => {
      this.handlers.delete(lease);
      this.handlerEnded();
    });
    this.handlers.set(lease, handling);
  }

  /** A handler that hangs must not keep its place for ever. */
  private overdue(lease: string): void {
    const { listener, handlerTimeoutMs, onEvent } = this.options;
    const detail = `a message of "${listener}" takes longer than ${handlerTimeoutMs} ms`;
    onEvent({ event: 'queue.handler-overdue', detail });
    this.handlers.delete(lease);
    this.handlerEnded();
  }

  private async handle(lease: string, message: QueueMessage, signal: AbortSignal): Promise<void> {
    const error = await this.call(message, signal);
    if (error) {
      const detail = `message ${message.id} of "${this.options.listener}", attempt ${message.attempt}: ${textOf(error.cause)}`;
      this.options.onEvent({ event: 'queue.handler-failed', detail, error: error.cause });
    }
    const { verdict, fault } = verdictOf(error);
    if (fault)
      this.options.onEvent({ event: 'queue.retry-invalid', detail: `${fault}; retried by the schedule` });
    if (this.held.remove(lease)) this.settler.add(lease, verdict);
  }

  private async call(
    message: QueueMessage,
    signal: AbortSignal,
  ): Promise<{ readonly cause: unknown } | undefined> {
    try {
      await this.handler(message, { signal });
      return undefined;
    } catch (cause) {
      return { cause };
    }
  }

  private fail(error: unknown): void {
    this.failure = { error };
    this.stopped.abort();
    this.giveUp();
    this.handlerEnded();
  }

  private untilOneEnds(): Promise<void> {
    return new Promise((resolve) => {
      this.handlerEnded = resolve;
    });
  }
}
