import type { Queries } from '../queries.ts';
import { CURSOR_CHANGES, MEMBER_ENDS } from './cursor-log.ts';

/** A partition as a consumer knows it. */
export interface Place {
  readonly topic: string;
  readonly partition: number;
  readonly fence: number;
}

export interface SentCommit extends Place {
  readonly offset: number;
  readonly rejected: readonly number[];
  /** Undefined: there was no response. */
  readonly outcome: 'committed' | 'behind' | 'ahead' | 'fenced' | undefined;
}

export interface ReceivedBatch extends Place {
  readonly from: number;
  readonly to: number;
  readonly messages: readonly { readonly offset: number; readonly id: string; readonly attempt: number }[];
}

/** A call of a consumer, as it recorded it. */
export interface ConsumerCall {
  readonly group: string;
  readonly member: string;
  readonly what: 'poll' | 'commit' | 'leave' | 'seek';
  readonly sentMs: number;
  readonly doneMs: number;
  /** Undefined: there was no response, or a temporary failure. */
  readonly status: number | undefined;
  readonly commits: readonly SentCommit[];
  readonly next: readonly (Place & { readonly next: number })[];
  readonly batches: readonly ReceivedBatch[];
}

/** A row of group_cursor after a change, or before it was deleted. */
export interface CursorChange {
  /** Grows with every change of the cursor, in the order of the commits. */
  readonly n: number;
  readonly op: 'INSERT' | 'UPDATE' | 'DELETE';
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly committed: number;
  readonly handed: number;
  readonly owner: string | null;
  readonly fence: number;
}

/** A member that left, or was dropped because it was silent. */
export interface MemberEnd {
  /** Numbers of the same series. */
  readonly n: number;
  readonly member: string;
  readonly silentMs: number;
  readonly sessionMs: number;
}

export interface EntryRow {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** Position in the inbox. */
  readonly message: number;
}

export interface TailRow {
  readonly topic: string;
  readonly partition: number;
  readonly earliest: number;
  readonly next: number;
}

export interface RejectionRow {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly deadOffset: number;
  readonly reason: string;
  /** Where an operator who revived it has put it, in the topic of the group's revived messages. */
  readonly revivedOffset: number | null;
}

/** Everything about topics and groups: what consumers recorded, and what the database recorded. */
export interface GroupsHistory {
  readonly calls: readonly ConsumerCall[];
  readonly changes: readonly CursorChange[];
  readonly ends: readonly MemberEnd[];
  /** Of all topics, dead letters included. */
  readonly entries: readonly EntryRow[];
  readonly tails: readonly TailRow[];
  readonly rejections: readonly RejectionRow[];
}

export async function readGroups(database: Queries, calls: readonly ConsumerCall[]): Promise<GroupsHistory> {
  return {
    calls,
    changes: await database.query<CursorChange>(CURSOR_CHANGES),
    ends: await database.query<MemberEnd>(MEMBER_ENDS),
    entries: await database.query<EntryRow>(
      `SELECT topic.name AS topic, entry.partition, entry."offset"::int, entry.message::int
       FROM topic_entry AS entry JOIN topic ON topic.number = entry.topic
       ORDER BY entry.topic, entry.partition, entry."offset"`,
    ),
    tails: await database.query<TailRow>(
      `SELECT topic.name AS topic, tail.partition, tail.earliest::int, tail.next::int
       FROM topic_partition AS tail JOIN topic ON topic.number = tail.topic`,
    ),
    rejections: await database.query<RejectionRow>(
      `SELECT consumer_group.name AS group, topic.name AS topic, rejection.partition, rejection."offset"::int,
              rejection.dead_offset::int AS "deadOffset", rejection.reason,
              rejection.revived_offset::int AS "revivedOffset"
       FROM rejection JOIN consumer_group ON consumer_group.number = rejection.group_number
       JOIN topic ON topic.number = rejection.topic`,
    ),
  };
}

/** One name for a partition of a group. */
export function partitionName({
  group,
  topic,
  partition,
}: Pick<CursorChange, 'group' | 'topic' | 'partition'>) {
  return `${group} ${topic}/${partition}`;
}

/** One name for a partition while a member has it. */
export function placeName({ topic, partition, fence }: Place): string {
  return `${topic}/${partition}/${fence}`;
}

/** The offset that each group started a partition after. */
export function startsOf({ changes }: Pick<GroupsHistory, 'changes'>): ReadonlyMap<string, number> {
  const starts = new Map<string, number>();
  for (const change of changes) {
    const name = partitionName(change);
    if (!starts.has(name)) starts.set(name, change.committed);
  }
  return starts;
}
