import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import type { BlockReader } from '../history/block-reader.ts';
import {
  comparePlaces,
  type HistoryMessage,
  LANES_PER_GROUP,
  type Place,
} from '../history/history-message.ts';
import { HistoryReader } from '../history/history-reader.ts';
import {
  ADVANCE_HISTORY,
  COUNT_ARCHIVED,
  HISTORY_LEFT,
  LANES_BETWEEN,
  LOCK_HISTORY,
} from './history-source.sql.ts';
import { LaneSource, type ReplayMessage, replayMessage } from './lane-source.ts';
import type { HistoryStep, Page } from './page.ts';
import type { LaneCursor } from './rebuild.ts';

/** How far the history of a lane group is read. */
export interface GroupCursor extends Place {
  readonly group: number;
}

/** Messages of history per page. Tests make pages small. */
export const HISTORY_PAGE = { messages: 2_048 };

/** Guards that tests remove, to show that they are needed. */
export const HISTORY_GUARDS = { mergesInbox: true, leavesOutApplied: true };

/** Each has the blocks that overlap at its place in memory. */
const MAX_READERS = 4;

/**
 * What a rebuild reads of history, lane group by lane group. It is merged with the inbox: a message may still be there while
 * later ones of its key are in history already, because it is kept for longer, or its deliveries took longer.
 *
 * A lane's own cursor decides what of the inbox comes next. That of the group cannot: a transaction of another lane may
 * still commit a message that comes before it. History does not change while it is read: retention moves a message only when
 * every open rebuild has applied it, imports are refused, and messages keep their places when blocks are merged.
 */
@Injectable()
export class HistorySource {
  private readonly readers = new Map<string, BlockReader>();

  constructor(
    private readonly database: Database,
    private readonly reader: HistoryReader,
    private readonly inbox: LaneSource,
  ) {}

  /** Groups whose history is not read to its end. */
  left(rebuild: number, on: Database | Transaction = this.database): Promise<GroupCursor[]> {
    return on.query(HISTORY_LEFT, [rebuild]);
  }

  async total(types: readonly string[]): Promise<number> {
    const [row] = await this.database.query<{ total: number }>(COUNT_ARCHIVED, [types]);
    return row!.total;
  }

  /** Whether a page of the group was read before, so that its blocks are in memory. */
  isOpen(rebuild: number, group: number): boolean {
    return this.readers.has(`${rebuild}/${group}`);
  }

  /** The next messages of a group, in the order in which they were applied. There may be none although it is not the end. */
  async next(rebuild: number, cursor: GroupCursor, types: readonly string[]): Promise<Page> {
    const { group, applied, position } = cursor;
    const from = { applied, position };
    const blocks = await this.readerOf(rebuild, group, types).read(from, HISTORY_PAGE.messages);
    const lanes = await this.lanesOf(rebuild, group);
    const end = blocks.completeTo ?? blocks.messages.at(-1);
    const inbox = end && HISTORY_GUARDS.mergesInbox ? await this.inbox.until(end, lanes, types) : undefined;
    const to = inbox?.completeTo ? later(inbox.completeTo, from) : blocks.completeTo;
    const isWithin = (place: Place) => !to || comparePlaces(place, to) <= 0;
    const archived = blocks.messages.filter(isWithin);
    const rows = merged(archived.map(replayed), inbox?.rows.filter(isWithin) ?? [], lanes);
    const own = new Set(rows.map(({ lane }) => lane));
    return {
      from: lanes.filter(({ lane }) => own.has(lane)),
      rows,
      history: { group, from, to, passed: blocks.countTo(to) - archived.length },
    };
  }

  /** In the transaction that applies a page. False: another replica was faster, or is at it. */
  async lock(rebuild: number, { group, from }: HistoryStep, tx: Transaction): Promise<boolean> {
    const rows = await tx.query(LOCK_HISTORY, [rebuild, group, from.applied, from.position]);
    return rows.length > 0;
  }

  async advance(rebuild: number, { group, to, passed }: HistoryStep, tx: Transaction): Promise<void> {
    const place = [to?.applied ?? null, to?.position ?? null];
    await tx.execute(ADVANCE_HISTORY, [rebuild, group, ...place, passed]);
    if (!to) this.close(rebuild, group);
  }

  /** Another replica is at this group, or there is no more. */
  close(rebuild: number, group: number): void {
    this.readers.delete(`${rebuild}/${group}`);
  }

  private lanesOf(rebuild: number, group: number): Promise<LaneCursor[]> {
    const first = group * LANES_PER_GROUP;
    return this.database.query(LANES_BETWEEN, [rebuild, first, first + LANES_PER_GROUP - 1]);
  }

  private readerOf(rebuild: number, group: number, types: readonly string[]): BlockReader {
    const name = `${rebuild}/${group}`;
    const reader = this.readers.get(name) ?? this.reader.openArchived(group, types);
    this.readers.delete(name);
    this.readers.set(name, reader);
    const [oldest] = this.readers.keys();
    if (this.readers.size > MAX_READERS) this.readers.delete(oldest!);
    return reader;
  }
}

/** A lane of the inbox may be behind what the group has read of history. */
function later(a: Place, b: Place): Place {
  return comparePlaces(a, b) > 0 ? a : b;
}

/** Without what the lanes have applied already: a page may have been applied in part. Each message once. */
function merged(
  archived: readonly ReplayMessage[],
  inbox: readonly ReplayMessage[],
  lanes: readonly LaneCursor[],
): ReplayMessage[] {
  const cursors = new Map(lanes.map((cursor) => [cursor.lane, cursor]));
  const isAhead = (row: ReplayMessage) => {
    // None: the rebuild was cancelled or dropped since its history was read.
    const cursor = cursors.get(row.lane);
    return cursor !== undefined && comparePlaces(row, cursor) > 0;
  };
  const ahead = HISTORY_GUARDS.leavesOutApplied ? archived.filter(isAhead) : archived;
  const byPosition = new Map([...ahead, ...inbox].map((row) => [row.position, row]));
  return [...byPosition.values()].sort(comparePlaces);
}

/** As if it were in the inbox. Attempts are not kept in history: it counts as the first. */
function replayed(message: HistoryMessage): ReplayMessage {
  const { occurredAt, receivedMs } = message;
  return replayMessage(message, receivedMs, occurredAt === null ? null : new Date(occurredAt));
}
