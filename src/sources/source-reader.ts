import { setTimeout as pause } from 'node:timers/promises';
import type { FedMessage, Feed, FeedPosition } from '../brokers/feed.ts';
import { feedKindOf } from '../brokers/feed-kinds.ts';
import type { SourceDefinition } from '../brokers/source-definition.ts';
import { doubled } from '../clock/loop.ts';
import { problemOf } from '../http/problem-of.ts';
import { isRefusal, type Outcome } from '../inbox/message-acceptor.ts';
import type { MessageRouter } from '../inbox/message-router.ts';
import type { NewMessage } from '../inbox/new-message.ts';
import type { EgressGuard } from '../webhooks/egress-guard.ts';
import { readFed } from './read-fed.ts';
import type { Lease, SourcesStore } from './sources-store.ts';

const CONNECT_MS = 10_000;
const MIN_RETRY_MS = 100;
const MAX_RETRY_MS = 5_000;
/** More are not kept: a publisher sends what this service does not accept, and an operator has to correct that. */
export const MAX_REFUSED = 1_000;
const CONFLICT = 'its id is taken by a message with other content';

export interface ReaderDeps {
  readonly store: SourcesStore;
  readonly guard: EgressGuard;
  readonly target: Pick<MessageRouter, 'post'>;
  readonly maxBytes: number;
  readonly warn: (detail: string) => void;
  readonly count: (outcome: 'accepted' | 'duplicate' | 'refused', by: number) => void;
}

/** The source keeps as many refused messages as it may. */
export class TooManyRefused extends Error {
  constructor() {
    super(`${MAX_REFUSED} refused messages are kept: it continues when they are discarded`);
  }
}

/** The lease is over: another replica may read the source. */
export class NotLeased extends Error {}

/**
 * Reads a source for as long as this replica has its lease: the messages of the broker, in its order, into the inbox, and
 * only then the acknowledgement. A reader that was frozen and goes on beside its successor changes no order: both store one
 * message after the other, beginning before the first that is not stored, and a message that is stored is a duplicate.
 */
export class SourceReader {
  private feed: Feed | undefined;
  private readonly over = new AbortController();

  constructor(
    private readonly lease: Lease,
    private readonly definition: SourceDefinition,
    private readonly deps: ReaderDeps,
    private readonly hasLease: () => boolean,
  ) {}

  /** Ends only by an error, or by `close`. */
  async run(position: FeedPosition | undefined): Promise<void> {
    const { origin } = this.definition;
    const { guard, warn, store } = this.deps;
    const options = { guard, connectMs: CONNECT_MS, name: this.lease.name, position, warn };
    await this.refuseWhenFull();
    this.feed = await (await feedKindOf(origin.mode)).open(origin as never, options);
    if (this.over.signal.aborted) return this.feed.close();
    await store.setState(this.lease, 'running');
    for (;;) {
      const messages = await this.feed.next();
      const counts = await this.storeAll(messages);
      await store.stored(this.lease, this.feed.stored(messages), counts);
      if (counts.refused > 0) await this.refuseWhenFull();
    }
  }

  get isClosed(): boolean {
    return this.over.signal.aborted;
  }

  /** What is not stored yet is handed out again, to whoever reads next. */
  async close(): Promise<void> {
    this.over.abort();
    await this.feed?.close();
  }

  private async refuseWhenFull(): Promise<void> {
    if ((await this.deps.store.countRefused(this.lease.name, MAX_REFUSED)) >= MAX_REFUSED)
      throw new TooManyRefused();
  }

  /** Retries until they are stored: to continue with later ones would change the order. */
  private async storeAll(messages: readonly FedMessage[]) {
    for (let attempt = 1; ; attempt++) {
      if (!this.hasLease()) throw new NotLeased('the lease is over');
      try {
        return await this.tryToStore(messages);
      } catch (error) {
        const { status, detail } = problemOf(error);
        if (status !== 503) throw error;
        this.deps.warn(`storing is retried: ${detail}`);
        await pause(Math.min(MAX_RETRY_MS, doubled(MIN_RETRY_MS, attempt)), undefined, {
          signal: this.over.signal,
        });
      }
    }
  }

  private async tryToStore(messages: readonly FedMessage[]) {
    const counts = { accepted: 0, duplicates: 0, refused: 0 };
    const read: { readonly fed: FedMessage; readonly message: NewMessage }[] = [];
    for (const fed of messages) {
      const message = readFed(fed, { name: this.lease.name, ...this.definition }, this.deps.maxBytes);
      if (typeof message === 'string') await this.refuse(fed, message, counts);
      else read.push({ fed, message });
    }
    const outcomes = await this.post(read.map(({ message }) => message));
    for (const [index, outcome] of outcomes.entries()) {
      if (typeof outcome === 'string') await this.refuse(read[index]!.fed, outcome, counts);
      else if (outcome.kind === 'accepted') counts.accepted += 1;
      else counts.duplicates += 1;
    }
    this.deps.count('accepted', counts.accepted);
    this.deps.count('duplicate', counts.duplicates);
    this.deps.count('refused', counts.refused);
    return counts;
  }

  /** All in one commit; if one of them cannot be stored, one after the other. */
  private async post(messages: readonly NewMessage[]): Promise<readonly (Outcome | string)[]> {
    if (messages.length === 0) return [];
    const together = await this.postTogether(messages);
    if (!together.some((outcome) => typeof outcome === 'string')) return together;
    const outcomes: (Outcome | string)[] = [];
    for (const message of messages) outcomes.push(...(await this.postTogether([message])));
    return outcomes;
  }

  /** A string says why nothing of it can be stored. Throws what a retry may mend. */
  private async postTogether(messages: readonly NewMessage[]): Promise<readonly (Outcome | string)[]> {
    const bytes = messages.reduce((sum, { payload }) => sum + payload.length, 0);
    try {
      const outcomes = await this.deps.target.post({ messages, batch: true, pointer: '', bytes });
      return outcomes.map((outcome) => (isRefusal(outcome) ? CONFLICT : outcome));
    } catch (error) {
      const { status, detail } = problemOf(error);
      if (status >= 500) throw error;
      return messages.map(() => detail);
    }
  }

  private async refuse(fed: FedMessage, reason: string, counts: { refused: number }): Promise<void> {
    await this.deps.store.refuse(this.lease.name, fed, reason);
    counts.refused += 1;
  }
}
