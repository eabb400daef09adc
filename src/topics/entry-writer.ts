import { isAssertionFailure } from '../database/errors.ts';
import type { Transaction } from '../database/transaction.ts';
import { APPEND, LOCK_PARTITIONS } from './entries.sql.ts';
import { partitionIdOf, partitionOf, type Topic } from './topic.ts';
import type { Topics } from './topics.ts';

/** A message that is appended to its topics. */
export interface TopicMessage {
  readonly position: number;
  readonly lane: number;
  readonly type: string;
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | null;
}

/** A topic was changed, and this replica does not know the change yet. */
export class TopicsChanged extends Error {}

interface Entry {
  readonly topic: number;
  readonly partition: number;
  readonly position: number;
  readonly bytes: number;
}

/** Appends the messages of a batch to their topics in the transaction that applies them. */
export class EntryWriter {
  /** The partitions that got entries, for `Wakeups`. */
  partitionIds: ReadonlySet<number> = new Set();

  constructor(
    private readonly messages: readonly TopicMessage[],
    private readonly topics: Topics,
  ) {}

  /**
   * The last statements before the COMMIT: the partitions stay locked until then. The first promise rejects with
   * TopicsChanged if this replica does not know all topics: a message that is applied after a topic was created is in it.
   * The topics are read here, together with the revision that is checked: a refresh while the denormalizers ran would
   * otherwise pass the check for topics that this batch was never compared with.
   */
  write(tx: Transaction): readonly Promise<void>[] {
    const current = this.topics.stillCurrent(tx).catch((error) => {
      throw isAssertionFailure(error) ? new TopicsChanged() : error;
    });
    const entries = this.messages.flatMap((message) =>
      this.topics.of(message.type).map((topic) => entryOf(message, topic)),
    );
    this.partitionIds = new Set(entries.map(({ topic, partition }) => partitionIdOf(topic, partition)));
    return [current, ...appendEntries(entries, tx)];
  }
}

/** Both statements are issued at once; they need nothing from each other but their order. */
export function appendEntries(entries: readonly Entry[], tx: Transaction): readonly Promise<void>[] {
  if (entries.length === 0) return [];
  const byPartition = new Map(entries.map((entry) => [partitionIdOf(entry.topic, entry.partition), entry]));
  const distinct = [...byPartition.values()];
  return [
    tx.execute(LOCK_PARTITIONS, [
      distinct.map(({ topic }) => topic),
      distinct.map(({ partition }) => partition),
    ]),
    tx.execute(APPEND, [
      entries.map(({ topic }) => topic),
      entries.map(({ partition }) => partition),
      entries.map(({ position }) => position),
      entries.map(({ bytes }) => bytes),
    ]),
  ].map((changed) => changed.then(() => undefined));
}

/** What its consumer gets: a page of small payloads can have large headers. */
export function bytesOf({ payload, headers }: Pick<TopicMessage, 'payload' | 'headers'>): number {
  return Buffer.byteLength(payload) + (headers ? Buffer.byteLength(JSON.stringify(headers)) : 0);
}

function entryOf(message: TopicMessage, topic: Topic): Entry {
  const { position, lane } = message;
  return {
    topic: topic.number,
    partition: partitionOf(lane, topic),
    position,
    bytes: bytesOf(message),
  };
}
