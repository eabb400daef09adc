import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import type { GroupRow } from './group.ts';
import { GROUPS_OF_MESSAGE, VIEW_LAGS, VIEW_MEMBERS, VIEW_PARTITIONS } from './group-view.sql.ts';
import type { GroupDetails, MemberView, MessageInGroup, PartitionView } from './groups.openapi.ts';

interface MemberRow {
  readonly id: string;
  readonly name: string | null;
  readonly joined_at: Date;
  readonly seen_at: Date;
  readonly alive: boolean;
  readonly in_flight: number;
  readonly partitions: number;
}

export interface GroupLag {
  readonly lag: number;
  readonly lagSeconds: number;
  /** Live ones. */
  readonly members: number;
}

export interface PartitionRow {
  readonly topic: string;
  readonly partition: number;
  readonly bound: number | null;
  readonly committed: number;
  readonly handed: number;
  readonly fence: number;
  readonly owner: string | null;
  readonly draining: boolean;
  readonly deaths: number;
  readonly retry_to: number;
  readonly next: number;
  readonly earliest: number;
  readonly lag_seconds: number | null;
  readonly owner_silent: boolean | null;
}

export interface MessageGroupRow {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** The first offset of the cursor. */
  readonly start: number;
  readonly committed: number;
  readonly handed: number;
  readonly owner: string | null;
  readonly draining: boolean;
  readonly member_name: string | null;
  readonly alive: boolean | null;
  readonly reason: string | null;
  readonly ruling: 'dead' | 'revived' | 'discarded' | null;
}

/** Groups as the API shows them. */
@Injectable()
export class GroupViews {
  constructor(private readonly reads: Reads) {}

  async detailsOf({ number }: Pick<GroupRow, 'number'>): Promise<GroupDetails> {
    const [members, partitions] = await Promise.all([
      this.reads.query<MemberRow>(VIEW_MEMBERS, [number]),
      this.reads.query<PartitionRow>(VIEW_PARTITIONS, [number]),
    ]);
    const views = partitions.map(partitionView);
    return {
      lag: views.reduce((sum, { lag }) => sum + lag, 0),
      lagSeconds: Math.max(0, ...views.map(({ lagSeconds }) => lagSeconds)),
      members: members.map(memberView),
      partitions: views,
    };
  }

  /** What a list shows of these groups, in one query. */
  async withLags<Row extends Pick<GroupRow, 'number'>>(rows: readonly Row[]): Promise<(Row & GroupLag)[]> {
    const numbers = rows.map(({ number }) => number);
    const lags = await this.reads.query<GroupLag & { number: number }>(VIEW_LAGS, [numbers]);
    const byNumber = new Map(lags.map((lag) => [lag.number, lag]));
    return rows.map((row) => ({ ...row, ...byNumber.get(row.number)! }));
  }

  /** The status of a message in every group that reads a topic it is in. */
  async ofMessage(position: number): Promise<MessageInGroup[]> {
    return (await this.reads.query<MessageGroupRow>(GROUPS_OF_MESSAGE, [position])).map(messageGroupView);
  }
}

function memberView({ id, name, joined_at, seen_at, alive, in_flight, partitions }: MemberRow): MemberView {
  return { member: id, name, joinedAt: joined_at, seenAt: seen_at, alive, inFlight: in_flight, partitions };
}

export function partitionView(row: PartitionRow): PartitionView {
  const { topic, partition, committed, handed, fence, next, earliest, owner } = row;
  const last = row.bound ?? next - 1;
  // What retention has removed is not waiting any more, except what a member has.
  const lag = handed - committed + Math.max(0, last - Math.max(handed, earliest - 1));
  return {
    topic,
    partition,
    committed,
    handed,
    earliest,
    next,
    lag,
    lagSeconds: lag === 0 ? 0 : Math.round((row.lag_seconds ?? 0) * 1000) / 1000,
    expired: Math.max(0, Math.min(last, earliest - 1) - handed),
    fence,
    member: owner,
    ...stateOf(row),
  };
}

/** The state of a partition in a group, and one sentence for a person. */
function stateOf(row: PartitionRow): Pick<PartitionView, 'state' | 'why'> {
  const { owner, draining, deaths, committed, handed, retry_to } = row;
  const inFlight = handed - committed;
  if (owner === null)
    return { state: 'free', why: 'No member is assigned; a member that joins or polls gets it.' };
  if (draining || row.bound !== null)
    return {
      state: 'draining',
      why: `It goes to another member when its owner has committed ${messages(inFlight)} that it has, or when its session ends.`,
    };
  if (deaths > 0 && committed < retry_to)
    return {
      state: 'suspect',
      why: `Members died ${deaths === 1 ? 'once' : `${deaths} times`} with messages from ${committed + 1} to ${retry_to}; they are handed out again${deaths >= 2 ? ', one at a time' : ''}.`,
    };
  if (row.owner_silent)
    return { state: 'owned', why: 'Its owner is silent; the next poll of another member takes it over.' };
  return {
    state: 'owned',
    why:
      inFlight > 0
        ? `Its owner has ${messages(inFlight)} in flight.`
        : 'Its owner has committed everything it got.',
  };
}

function messages(count: number): string {
  return count === 1 ? '1 message' : `${count} messages`;
}

const PASSED = 'The group is past it: it has committed it before, or its start or a seek has passed over it.';

export function messageGroupView(row: MessageGroupRow): MessageInGroup {
  const { group, topic, partition, offset } = row;
  return { group, topic, partition, offset, ...statusOf(row) };
}

function statusOf(row: MessageGroupRow): Pick<MessageInGroup, 'status' | 'explanation'> {
  const { offset, start, committed, handed, owner, alive, reason, ruling } = row;
  const who = row.member_name ?? owner;
  if (ruling !== null)
    return {
      status: ruling === 'dead' ? 'rejected' : ruling,
      explanation: `The group rejected it: ${reason}.`,
    };
  if (offset < start) return { status: 'processed', explanation: PASSED };
  if (offset <= committed) return { status: 'processed', explanation: 'The group has committed it.' };
  if (offset <= handed && alive)
    return { status: 'processing', explanation: `Member ${who} has it and has not committed it.` };
  const ahead = offset - Math.max(committed, handed) - 1;
  if (owner === null)
    return {
      status: 'pending',
      explanation: 'No member of the group reads its partition; start a consumer.',
    };
  if (offset <= handed)
    return {
      status: 'pending',
      explanation: `Member ${who} had it and is silent; it is handed out again when its session is over.`,
    };
  return {
    status: 'pending',
    explanation: `Member ${who} reads its partition and has ${messages(Math.max(0, ahead))} before it.`,
  };
}
