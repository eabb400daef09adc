import { Injectable } from '@nestjs/common';
import { Reads } from '../database/reads.ts';
import { compilePattern, likeOf } from '../listeners/type-patterns.ts';
import { BlockReader } from './block-reader.ts';
import { BlockStore } from './block-store.ts';
import { GroupReader } from './group-reader.ts';
import { type HistoryMessage, LANES_PER_GROUP, type Place } from './history-message.ts';
import { GAP, INBOX_AFTER, INBOX_MESSAGES } from './history-reader.sql.ts';

export interface HistoryScope {
  /** Lanes `group * 16` to `group * 16 + 15`. */
  readonly group: number;
  /** Only this lane of the group. */
  readonly lane?: number;
  /** Types, or patterns with `*`; absent: all types. */
  readonly types?: readonly string[] | undefined;
}

/** A message of the inbox, not loaded yet. */
export interface InboxPlace extends Place {
  readonly bytes: number;
}

/**
 * Reads finished messages in the order of application, those in history and those still in the inbox as one sequence.
 *
 * Within a lane that is the order of the commits: whoever continues behind the last message of a lane misses none. Within a
 * group, a transaction of another lane may still commit a message that comes before one that was read already.
 */
@Injectable()
export class HistoryReader {
  constructor(
    private readonly reads: Reads,
    private readonly blocks: BlockStore,
  ) {}

  /** Keeps blocks in memory between calls: one reader per worker. */
  open({ group, lane, types }: HistoryScope): GroupReader {
    const lanes =
      lane === undefined
        ? Array.from({ length: LANES_PER_GROUP }, (_, index) => group * LANES_PER_GROUP + index)
        : [lane];
    const matchers = types?.map(compilePattern);
    const likePatterns = types?.map(likeOf);
    const isWanted = (message: HistoryMessage) =>
      lanes.includes(message.lane) && (!matchers || matchers.some((matches) => matches(message.type)));
    return new GroupReader(this.openBlocks(group, likePatterns, isWanted), {
      inboxAfter: (place, max) =>
        this.reads.queryWithIndexPlans<InboxPlace>(INBOX_AFTER, [
          lanes,
          place.applied,
          place.position,
          likePatterns ?? null,
          max,
        ]),
      loadInbox: (positions) => this.reads.queryWithIndexPlans<HistoryMessage>(INBOX_MESSAGES, [positions]),
    });
  }

  /** Only what is in history, of these types. */
  openArchived(group: number, types: readonly string[]): BlockReader {
    const wanted = new Set(types);
    return this.openBlocks(group, types.map(likeOf), ({ type }) => wanted.has(type));
  }

  private openBlocks(
    group: number,
    likePatterns: readonly string[] | undefined,
    isWanted: (message: HistoryMessage) => boolean,
  ): BlockReader {
    return new BlockReader({
      isWanted,
      blocksAfter: (place, max) => this.blocks.after(group, place, likePatterns, max),
      loadBlock: (id) => this.blocks.load(id),
    });
  }

  /** Messages of these types that were received before may be missing; undefined: none is missing. */
  async completeFrom(types?: readonly string[]): Promise<Date | undefined> {
    const [row] = await this.reads.query<{ to: Date | null }>(GAP, [types?.map(likeOf) ?? null]);
    return row?.to ?? undefined;
  }
}
