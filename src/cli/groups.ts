import type { Api } from './api.ts';

/** A consumer group as `GET /v1/groups` lists it. */
export interface GroupSummary {
  readonly name: string;
  readonly topics: readonly string[];
  /** How many messages it has not committed, and the age of the oldest of them. */
  readonly lag: number;
  readonly lagSeconds: number;
  readonly members: number;
}

export interface GroupMember {
  readonly member: string;
  readonly name: string | null;
  readonly alive: boolean;
  readonly seenAt: string;
  readonly inFlight: number;
  readonly partitions: number;
}

export interface GroupPartition {
  readonly topic: string;
  readonly partition: number;
  readonly committed: number;
  readonly next: number;
  readonly lag: number;
  readonly lagSeconds: number;
  /** Messages that retention removed before the group read them. */
  readonly expired: number;
  readonly member: string | null;
  readonly state: 'free' | 'owned' | 'draining' | 'suspect';
  readonly why: string;
}

/** A consumer group as `GET /v1/groups/{group}` returns it. */
export interface GroupDetails extends Omit<GroupSummary, 'members'> {
  readonly session: string;
  readonly members: readonly GroupMember[];
  readonly partitions: readonly GroupPartition[];
}

export interface Topic {
  readonly name: string;
  readonly kind: 'topic' | 'dead' | 'revived';
  readonly types: readonly string[];
  readonly retention: string;
  readonly partitions: readonly {
    readonly partition: number;
    readonly earliest: number;
    readonly next: number;
  }[];
}

const MAX_LISTED = 10_000;

export async function listGroups(api: Api): Promise<GroupSummary[]> {
  return (await api.list('/v1/groups', {}, MAX_LISTED)) as GroupSummary[];
}

export async function listTopics(api: Api): Promise<Topic[]> {
  return (await api.list('/v1/topics', {}, MAX_LISTED)) as Topic[];
}

export async function groupDetails(api: Api, name: string): Promise<GroupDetails> {
  return (await api.get(groupPath(name))).body;
}

export function groupPath(name: string): string {
  return `/v1/groups/${encodeURIComponent(name)}`;
}

export function messagesKept({ partitions }: Topic): number {
  return partitions.reduce((sum, { earliest, next }) => sum + next - earliest, 0);
}
