/** The name of the queue in notifications about a group: members came or went, or a partition became free. */
export const GROUP_WAKEUPS = 'groups';

/** The name of the queue in notifications about a member: a commit freed what its poll may wait for. */
export const MEMBER_WAKEUPS = 'members';

/** One number for a member, for notifications; another member that has the same one is woken needlessly. */
export function memberIdOf(member: string): number {
  return Number.parseInt(member.slice(0, 8), 16);
}

/** A member of a group may be silent for `session_ms`; then its partitions go to others. */
export interface GroupRow {
  readonly number: number;
  readonly name: string;
  readonly definition: GroupTerms;
  readonly topics: readonly string[];
  readonly session_ms: number;
  readonly max_in_flight: number;
  readonly attempts: number;
  readonly takeover: 'drain' | 'skip';
  readonly on_expired: 'continue' | 'stop';
  readonly generation: number;
  readonly balanced: number;
  readonly origin: 'api' | 'file';
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly updated_by: string;
}

/** Where a group starts in a topic that it has not read before. */
export type Start = 'earliest' | 'latest' | { readonly time: string };

/** The stored form of a definition, without what has a column of its own. */
export interface GroupTerms {
  readonly start: Start;
}

/** A partition as a consumer knows it. */
export interface Place {
  readonly topic: string;
  readonly partition: number;
  /** Grows with every hand-over of the partition. */
  readonly fence: number;
}

/** The names of its topics have eight characters more. */
export const MAX_GROUP_NAME = 55;

export function deadTopicOf(group: string): string {
  return `${group}.dead`;
}

export function revivedTopicOf(group: string): string {
  return `${group}.revived`;
}
