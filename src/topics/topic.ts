/** A log of messages in partitions, as the engine uses it (times in milliseconds). */
export interface Topic {
  /** Of this topic only: one that is deleted and created again has another number. */
  readonly number: number;
  readonly name: string;
  readonly partitions: number;
  /** Exact types, or patterns with `*`. */
  readonly types: readonly string[];
  /** Null: RETENTION_TOPICS, or RETENTION_DEAD for dead letters. */
  readonly retention_ms: number | null;
  /** `dead` and `revived` belong to a group: what it rejected, and what was revived of it. */
  readonly kind: 'topic' | 'dead' | 'revived';
}

export const DEFAULT_PARTITIONS = 16;
/** Also the distance between the partition numbers of two topics in a notification. */
export const MAX_PARTITIONS = 256;

/** The name of the queue in notifications about new entries. */
export const TOPIC_WAKEUPS = 'topics';

/** One number for a partition of a topic, for notifications. */
export function partitionIdOf(topic: number, partition: number): number {
  return topic * MAX_PARTITIONS + partition;
}

/** A key is always in the same partition; messages without one are spread by their random lanes. */
export function partitionOf(lane: number, { partitions }: Pick<Topic, 'partitions'>): number {
  return lane % partitions;
}
