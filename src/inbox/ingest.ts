import { type BeforeApplicationShutdown, Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { codeOf, isDatabaseAway } from '../database/faults.ts';
import { problemOf } from '../http/problem-of.ts';
import { Problem, retryAfter } from '../http/problems.ts';
import { Wakeups } from '../lanes/wakeups.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { IngestMetrics } from './ingest-metrics.ts';
import { MessageAcceptor, type Outcome } from './message-acceptor.ts';
import type { NewMessage } from './new-message.ts';
import type { Posted } from './read-request.ts';

const DEADLOCK = '40P01';
const MAX_ATTEMPTS = 5;

/** A post waiting for its commit. */
interface Waiting {
  readonly posted: Posted;
  readonly sinceMs: number;
  readonly settle: (outcomes: readonly Outcome[]) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Where posts wait for the one writer of this replica. While a commit is on its way, the posts that arrive
 * gather and go with the next one: no timer, so a lone message never waits, and under load the commits grow.
 * One writer at a time keeps the messages of a key in the order they came.
 */
@Injectable()
export class Ingest implements BeforeApplicationShutdown {
  private readonly queue: Waiting[] = [];
  private waitingMessages = 0;
  private waitingBytes = 0;
  private writing: Promise<void> | undefined;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly accept: MessageAcceptor,
    private readonly metrics: IngestMetrics,
    private readonly wakeups: Wakeups,
  ) {
    metrics.watchQueue(() => ({ messages: this.waitingMessages, bytes: this.waitingBytes }));
  }

  /** Resolves after the commit. */
  post(posted: Posted): Promise<readonly Outcome[]> {
    this.refuseWhenFull(posted);
    this.waitingMessages += posted.messages.length;
    this.waitingBytes += posted.bytes;
    const outcomes = new Promise<readonly Outcome[]>((settle, fail) => {
      this.queue.push({ posted, sinceMs: performance.now(), settle, fail });
    });
    this.writing ??= this.writeAll();
    return outcomes;
  }

  /** What was taken in is answered before the replica goes. */
  async beforeApplicationShutdown(): Promise<void> {
    await this.writing;
  }

  private refuseWhenFull({ messages, bytes }: Posted): void {
    const { ingestWaitingMessages, ingestWaitingBytes } = this.settings;
    const full =
      this.waitingMessages + messages.length > ingestWaitingMessages ||
      this.waitingBytes + bytes > ingestWaitingBytes;
    if (!full || this.queue.length === 0) return;
    throw new Problem('overloaded', 'Too many messages are waiting to be stored; try again.', retryAfter(1));
  }

  private async writeAll(): Promise<void> {
    // Everything that came in the same turn of the event loop goes together.
    await new Promise(setImmediate);
    const watch = setInterval(() => this.rejectExpired(), this.settings.ingestWait / 4).unref();
    while (this.queue.length > 0) {
      const flush = this.nextFlush();
      await this.write(flush);
    }
    clearInterval(watch);
    this.writing = undefined;
  }

  /** A commit may take as long as the database lets it; whoever still waits for a turn behind it can go elsewhere. */
  private rejectExpired(): void {
    const latest = performance.now() - this.settings.ingestWait;
    const late = this.queue.findIndex(({ sinceMs }) => sinceMs > latest);
    const busy = new Problem('overloaded', 'Storing takes too long; try again.', retryAfter(1));
    this.rejectFirst(late < 0 ? this.queue.length : late, busy);
  }

  /** The first so many of the room. */
  private rejectFirst(count: number, error: unknown): void {
    const gone = this.queue.splice(0, count);
    this.removeFromTotals(gone);
    for (const waiting of gone) waiting.fail(error);
  }

  private removeFromTotals(gone: readonly Waiting[]): void {
    for (const { posted } of gone) {
      this.waitingMessages -= posted.messages.length;
      this.waitingBytes -= posted.bytes;
    }
  }

  /** A run of single messages up to the limit, or one batch. */
  private nextFlush(): Waiting[] {
    if (this.queue[0]!.posted.batch) return this.queue.splice(0, 1);
    let count = 0;
    let bytes = 0;
    while (
      count < this.queue.length &&
      count < this.settings.ingestFlushMessages &&
      !this.queue[count]!.posted.batch
    ) {
      bytes += this.queue[count]!.posted.bytes;
      if (count > 0 && bytes > this.settings.ingestFlushBytes) break;
      count += 1;
    }
    return this.queue.splice(0, count);
  }

  private async write(flush: readonly Waiting[]): Promise<void> {
    const messages = flush.flatMap(({ posted }) => posted.messages);
    const ended = this.metrics.flushStarted(messages.length);
    try {
      const outcomes = await this.store(flush, messages);
      for (const [index, waiting] of flush.entries()) {
        waiting.settle(waiting.posted.batch ? outcomes : [outcomes[index]!]);
      }
      this.wake(messages, outcomes);
    } catch (error) {
      await this.writeSeparately(flush, error);
    } finally {
      ended();
      this.removeFromTotals(flush);
    }
  }

  /**
   * A database that is away, or too busy, is nobody's fault: all are told to come again. (A commit that was cut
   * may have happened; whoever repeats with the same id gets a duplicate, not a second message.) Where it is away, those
   * in the room are told as well: to find that out can take half a minute, for each flush anew. Anything else
   * is one message's fault: each is tried for itself.
   */
  private async writeSeparately(flush: readonly Waiting[], error: unknown): Promise<void> {
    if (isDatabaseAway(error)) this.rejectFirst(this.queue.length, error);
    const apart = flush.length > 1 && problemOf(error).status !== 503;
    const event = apart ? 'ingest.flush-split' : 'ingest.flush-failed';
    this.log.warn({ event, posts: flush.length, error }, apart ? 'storing one by one' : 'nothing was stored');
    for (const waiting of flush) {
      if (!apart) waiting.fail(error);
      else {
        try {
          const { messages } = waiting.posted;
          const outcomes = await this.store([waiting], messages);
          waiting.settle(outcomes);
          this.wake(messages, outcomes);
        } catch (own) {
          waiting.fail(own);
        }
      }
    }
  }

  /** The loser of a deadlock has stored nothing and tries again. */
  private async store(
    flush: readonly Waiting[],
    messages: readonly NewMessage[],
    attempt = 1,
  ): Promise<readonly Outcome[]> {
    try {
      return await (flush[0]!.posted.batch
        ? this.accept.acceptBatch(messages)
        : this.accept.acceptSingles(messages));
    } catch (error) {
      if (codeOf(error) !== DEADLOCK || attempt === MAX_ATTEMPTS) throw error;
      return this.store(flush, messages, attempt + 1);
    }
  }

  private wake(messages: readonly NewMessage[], outcomes: readonly Outcome[]): void {
    const lanes = new Set<number>();
    outcomes.forEach((outcome, index) => {
      if (outcome.kind === 'accepted' && outcome.status === 'pending' && !outcome.taken)
        lanes.add(messages[index]!.lane);
    });
    if (lanes.size) this.wakeups.announce('inbox', lanes);
  }
}
