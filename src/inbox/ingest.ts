import { type BeforeApplicationShutdown, Inject, Injectable } from '@nestjs/common';
import { BatchQueue } from '../clock/batch-queue.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { codeOf, isDatabaseAway } from '../database/errors.ts';
import { NOT_OF_THIS_CELL, problemOf } from '../http/problem-of.ts';
import { Problem, retryAfter } from '../http/problems.ts';
import { Wakeups } from '../lanes/wakeups.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { IngestMetrics } from './ingest-metrics.ts';
import { MessageAcceptor, type Outcome } from './message-acceptor.ts';
import type { NewMessage } from './new-message.ts';
import type { PostedMessages } from './read-request.ts';

const DEADLOCK = '40P01';
const MAX_ATTEMPTS = 5;

/** A post waiting for its commit. */
interface Waiting {
  readonly posted: PostedMessages;
  readonly sinceMs: number;
  readonly settle: (outcomes: readonly Outcome[]) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * The queue of posts for the one writer of this replica. Posts that arrive while a commit is in flight are stored by the next
 * commit. One writer at a time keeps the messages of a key in the order they arrived.
 */
@Injectable()
export class Ingest implements BeforeApplicationShutdown {
  private readonly queue = new BatchQueue<Waiting>(() => this.write(this.nextFlush()));
  private waitingMessages = 0;
  private waitingBytes = 0;
  private readonly expiry: NodeJS.Timeout;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly acceptor: MessageAcceptor,
    private readonly metrics: IngestMetrics,
    private readonly wakeups: Wakeups,
  ) {
    metrics.watchQueue(() => ({ messages: this.waitingMessages, bytes: this.waitingBytes }));
    this.expiry = setInterval(() => this.rejectExpired(), settings.ingestWait / 4).unref();
  }

  /** Resolves after the commit. */
  post(posted: PostedMessages): Promise<readonly Outcome[]> {
    this.refuseWhenFull(posted);
    this.waitingMessages += posted.messages.length;
    this.waitingBytes += posted.bytes;
    return new Promise((settle, fail) => {
      this.queue.add({ posted, sinceMs: performance.now(), settle, fail });
    });
  }

  /** Every queued post gets its response before the replica stops. */
  async beforeApplicationShutdown(): Promise<void> {
    await this.queue.drained();
    clearInterval(this.expiry);
  }

  private refuseWhenFull({ messages, bytes }: PostedMessages): void {
    const { ingestWaitingMessages, ingestWaitingBytes } = this.settings;
    const full =
      this.waitingMessages + messages.length > ingestWaitingMessages ||
      this.waitingBytes + bytes > ingestWaitingBytes;
    if (!full || this.queue.items.length === 0) return;
    throw new Problem('overloaded', 'Too many messages are waiting to be stored; try again.', retryAfter(1));
  }

  /** A commit may take as long as the database allows; a post that is still queued behind it can be sent to another replica. */
  private rejectExpired(): void {
    const { items } = this.queue;
    const latest = performance.now() - this.settings.ingestWait;
    const firstInTime = items.findIndex(({ sinceMs }) => sinceMs > latest);
    const busy = new Problem('overloaded', 'Storing takes too long; try again.', retryAfter(1));
    this.rejectFirst(firstInTime < 0 ? items.length : firstInTime, busy);
  }

  /** Rejects the first posts of the queue. */
  private rejectFirst(count: number, error: unknown): void {
    const rejected = this.queue.items.splice(0, count);
    this.removeFromTotals(rejected);
    for (const waiting of rejected) waiting.fail(error);
  }

  private removeFromTotals(removed: readonly Waiting[]): void {
    for (const { posted } of removed) {
      this.waitingMessages -= posted.messages.length;
      this.waitingBytes -= posted.bytes;
    }
  }

  /** A run of single messages up to the limit, or one batch. */
  private nextFlush(): Waiting[] {
    const { items } = this.queue;
    if (items[0]!.posted.batch) return items.splice(0, 1);
    let count = 0;
    let bytes = 0;
    while (count < items.length && count < this.settings.ingestFlushMessages && !items[count]!.posted.batch) {
      bytes += items[count]!.posted.bytes;
      if (count > 0 && bytes > this.settings.ingestFlushBytes) break;
      count += 1;
    }
    return items.splice(0, count);
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
      await this.rejectOrSplit(flush, error);
    } finally {
      ended();
      this.removeFromTotals(flush);
    }
  }

  /**
   * No message causes a database to be unreachable or overloaded: all posts are rejected and can be retried. (A commit whose
   * connection broke may have happened; a retry with the same id is a duplicate then, not a second message.) If the database is
   * unreachable, the queued posts are rejected too: it can take half a minute to notice, for each flush again. Any other
   * error is caused by one of the messages, such as one that the fence of a cell refuses: each post is stored alone.
   */
  private async rejectOrSplit(flush: readonly Waiting[], error: unknown): Promise<void> {
    if (isDatabaseAway(error)) this.rejectFirst(this.queue.items.length, error);
    const ofOne = codeOf(error) === NOT_OF_THIS_CELL || problemOf(error).status !== 503;
    const alone = flush.length > 1 && ofOne;
    const event = alone ? 'ingest.flush-split' : 'ingest.flush-failed';
    this.log.warn(
      { event, posts: flush.length, error },
      alone ? 'a batch of posts could not be stored; each post is stored alone' : 'posts could not be stored',
    );
    for (const waiting of flush) {
      if (!alone) waiting.fail(error);
      else {
        try {
          const { messages } = waiting.posted;
          const outcomes = await this.store([waiting], messages);
          waiting.settle(outcomes);
          this.wake(messages, outcomes);
        } catch (ownError) {
          waiting.fail(ownError);
        }
      }
    }
  }

  /** The transaction that a deadlock ended has stored nothing; it is retried. */
  private async store(
    flush: readonly Waiting[],
    messages: readonly NewMessage[],
    attempt = 1,
  ): Promise<readonly Outcome[]> {
    try {
      return await (flush[0]!.posted.batch
        ? this.acceptor.acceptBatch(messages)
        : this.acceptor.acceptSingles(messages));
    } catch (error) {
      if (codeOf(error) !== DEADLOCK || attempt === MAX_ATTEMPTS) throw error;
      return this.store(flush, messages, attempt + 1);
    }
  }

  private wake(messages: readonly NewMessage[], outcomes: readonly Outcome[]): void {
    const lanes = new Set<number>();
    outcomes.forEach((outcome, index) => {
      if (outcome.kind === 'accepted' && outcome.status === 'pending' && !outcome.claimed)
        lanes.add(messages[index]!.lane);
    });
    if (lanes.size) this.wakeups.announce('inbox', lanes);
  }
}
