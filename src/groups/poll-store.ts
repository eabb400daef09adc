import { Injectable } from '@nestjs/common';
import { Database, type Statement } from '../database/database.ts';
import { FORCE_INDEX_PLANS } from '../database/force-index-plans.ts';
import type { Transaction } from '../database/transaction.ts';
import { DatabaseContact } from './database-contact.ts';
import type { Place } from './group.ts';
import {
  CHANGES,
  COMMIT_OFFSETS,
  EXPECT_NEXT,
  GIVE_BACK,
  HAND_OUT,
  STATE,
  TOUCH,
  TOUCH_ALL,
  TOUCH_WAITING,
} from './poll.sql.ts';

/** A partition and an offset in it, as a member sends it. */
export interface OffsetOf extends Place {
  readonly offset: number;
}

export interface Outcome {
  /** The number of the topic; null if there is none of that name. */
  readonly topic: number | null;
  readonly outcome: 'committed' | 'behind' | 'ahead' | 'fenced';
  readonly committed: number | null;
  readonly moved: boolean | null;
  /** Before the commit, its next message could be handed out only alone. */
  readonly alone: boolean | null;
  /** How many offsets it moved by. */
  readonly messages: number;
}

/** What a poll hands out of one partition. */
export interface BatchRow extends Place {
  readonly first: number;
  readonly last: number;
  readonly count: number;
  /** The offset after what was handed out before: lower than `first` if messages in between are no longer kept. */
  readonly expected: number;
  /** How many of those this poll has passed over. */
  readonly skipped: number;
  /** JSON texts, joined by commas. */
  readonly messages: string | null;
}

/** Where the messages of a batch are. */
export type BatchPlace = Omit<BatchRow, 'messages'>;

/** A poll whose response was not read. */
export interface UnreadPoll {
  readonly group: string;
  readonly member: string;
  readonly poll: string | undefined;
  readonly batches: readonly BatchPlace[];
}

/** A cursor of the member, with the ends of its partition. */
export interface MemberCursor extends Place {
  /** Of the topic. */
  readonly number: number;
  readonly committed: number;
  readonly handed: number;
  readonly draining: boolean;
  readonly bound: number | null;
  /** Its next message is handed out only when everything before is committed. */
  readonly alone: boolean;
  readonly earliest: number;
  /** The offset of the next entry of the partition. */
  readonly next: number;
}

export interface StateRow {
  readonly number: number;
  readonly session_ms: number;
  readonly max_in_flight: number;
  readonly on_expired: 'continue' | 'stop';
  readonly poll: string | null;
  /** The member exists. */
  readonly known: boolean;
  readonly unbalanced: boolean;
  readonly cursors: readonly MemberCursor[];
}

/** A member that gets nothing more until it commits, and the sum of the offsets that it has committed. */
export interface BlockedMember {
  readonly group: number;
  readonly member: string;
  readonly committed: number;
}

export interface WaitingMember {
  readonly group: number;
  readonly member: string;
  /** When its wait is over. */
  readonly untilMs: number;
}

export interface PollStatements {
  readonly group: string;
  readonly member: string;
  readonly poll: string | undefined;
  /** It has waited, and was woken or not: a later poll of the member may have replaced it. */
  readonly waited: 'woken' | 'not woken' | undefined;
  readonly max: number;
  readonly maxBytes: number;
  readonly commit: readonly OffsetOf[];
  readonly next: readonly OffsetOf[];
}

export interface PollReply {
  readonly outcomes: readonly Outcome[];
  readonly batches: readonly BatchRow[];
  /** Undefined: there is no such group. */
  readonly state: StateRow | undefined;
}

/** One round trip per poll. */
@Injectable()
export class PollStore {
  constructor(
    private readonly database: Database,
    private readonly contact: DatabaseContact,
  ) {}

  async poll(request: PollStatements): Promise<PollReply> {
    const { group, member, poll, waited, max, maxBytes, commit, next } = request;
    const touched = [group, member, poll ?? null];
    const statements: Statement[] = [
      [FORCE_INDEX_PLANS],
      waited ? [TOUCH_WAITING, [...touched, waited === 'woken']] : [TOUCH, touched],
    ];
    // Returns where the rows of the statement will be; undefined if it is not needed.
    const add = (isNeeded: boolean, statement: Statement) =>
      isNeeded ? statements.push(statement) - 1 : undefined;
    const commits = add(commit.length > 0, [COMMIT_OFFSETS, [group, member, ...columnsOf(commit)]]);
    add(next.length > 0, [EXPECT_NEXT, [group, member, ...columnsOf(next)]]);
    const handOut = [group, member, poll ?? null, max, maxBytes, ...columnsOf(next)];
    const batches = add(max > 0, [HAND_OUT, handOut]);
    const state = add(true, [STATE, [group, member, this.contact.forMs]])!;
    const rows = await this.contact.during(() => this.database.inOneRoundTrip(statements));
    return {
      outcomes: (commits === undefined ? [] : rows[commits]) as Outcome[],
      batches: (batches === undefined ? [] : rows[batches]) as BatchRow[],
      state: rows[state]![0] as StateRow | undefined,
    };
  }

  /** False: there is no such member. */
  async touch(group: string, member: string, tx: Transaction): Promise<boolean> {
    return (await tx.query(TOUCH, [group, member, null])).length > 0;
  }

  commit(
    group: string,
    member: string,
    items: readonly OffsetOf[],
    tx: Pick<Transaction, 'query'>,
  ): Promise<Outcome[]> {
    return tx.query(COMMIT_OFFSETS, [group, member, ...columnsOf(items)]);
  }

  async state(group: string, member: string, tx: Pick<Transaction, 'query'> = this.database) {
    const [row] = await tx.query<StateRow>(STATE, [group, member, this.contact.forMs]);
    return row;
  }

  /** A response that nobody read: its messages are handed out again, and no attempt is counted. Returns the number of the group. */
  async giveBack({ group, member, poll, batches }: UnreadPoll): Promise<number | undefined> {
    const columns = columnsOf(batches.map((batch) => ({ ...batch, offset: batch.first })));
    const values = [group, member, ...columns, batches.map(({ last }) => last), poll];
    const [row] = await this.database.query<{ group: number }>(GIVE_BACK, values);
    return row?.group;
  }

  async touchAll(members: readonly WaitingMember[]): Promise<void> {
    const values = [
      members.map(({ group }) => group),
      members.map(({ member }) => member),
      members.map(({ untilMs }) => untilMs - performance.now()),
    ];
    await this.contact.during(() => this.database.execute(TOUCH_ALL, values));
  }

  changes(
    known: readonly { readonly topic: number; readonly partition: number; readonly next: number }[],
    groups: readonly number[],
    blocked: readonly BlockedMember[],
  ): Promise<{ kind: 'topic' | 'group' | 'member'; number: number; partition: number }[]> {
    const values = [
      known.map(({ topic }) => topic),
      known.map(({ partition }) => partition),
      known.map(({ next }) => next),
      groups,
      blocked.map(({ group }) => group),
      blocked.map(({ member }) => member),
      blocked.map(({ committed }) => committed),
      this.contact.forMs,
    ];
    return this.contact.during(() => this.database.query(CHANGES, values));
  }
}

function columnsOf(items: readonly OffsetOf[]): unknown[] {
  return [
    items.map(({ topic }) => topic),
    items.map(({ partition }) => partition),
    items.map(({ fence }) => fence),
    items.map(({ offset }) => offset),
  ];
}
