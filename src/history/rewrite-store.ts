import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import { FORCE_INDEX_PLANS } from '../database/force-index-plans.ts';
import { groupBy } from '../database/group-by.ts';
import type { Transaction } from '../database/transaction.ts';
import { Archive } from './archive.ts';
import { decodeBlock } from './block-format.ts';
import type { HistoryMessage } from './history-message.ts';
import {
  ADD_GAP,
  ADD_PARTITIONS,
  AGED_BLOCKS,
  BLOCKS_OF,
  BODY_OF,
  DROP_PARTITION,
  FORGET,
  IS_EMPTY,
  LOCK_REWRITES,
  NEEDED_BLOCKS,
  OLD_PARTITIONS,
  SMALL_BLOCKS,
  TAKE_BLOCKS,
} from './rewrite.sql.ts';

export interface SmallBlock {
  readonly id: number;
  readonly laneGroup: number;
  readonly types: readonly string[];
  readonly count: number;
  readonly bytes: number;
}

export interface AgedBlock {
  readonly id: number;
  readonly types: readonly string[];
  readonly ageMs: number;
}

/** The statements that replace and remove blocks. */
@Injectable()
export class RewriteStore {
  constructor(
    private readonly database: Database,
    private readonly archive: Archive,
  ) {}

  small(limits: { readonly count: number; readonly bytes: number }, max: number): Promise<SmallBlock[]> {
    return this.database.query(SMALL_BLOCKS, [limits.count, limits.bytes, max]);
  }

  aged(ms: number, after: number, max: number): Promise<AgedBlock[]> {
    return this.database.query(AGED_BLOCKS, [ms, after, max]);
  }

  async ofGroup(laneGroup: number, after: number, max: number): Promise<number[]> {
    const rows = await this.database.query<{ id: number }>(BLOCKS_OF, [laneGroup, after, max]);
    return rows.map(({ id }) => id);
  }

  async hasKey(id: number, key: string): Promise<boolean> {
    const [row] = await this.database.query<{ body: Buffer }>(BODY_OF, [id]);
    return row !== undefined && (await decodeBlock(row.body)).some((message) => message.key === key);
  }

  /**
   * Removes a block that was kept for long enough; not if a rebuild still needs it. Under the lock: a rebuild that starts waits
   * for the removal, and then sees the gap.
   */
  async removeAged(block: number): Promise<void> {
    await this.rewrite(
      [block],
      () => [],
      (tx, gone) => this.addGap(gone, tx),
      async (tx) => (await tx.query(NEEDED_BLOCKS, [[block]])).length > 0,
    );
  }

  /**
   * Replaces blocks by what `keep` returns of their messages, and returns what is gone. Undefined: another replica was faster
   * with one of the blocks, or they are needed, and nothing was changed.
   */
  async rewrite(
    blocks: readonly number[],
    keep: (messages: readonly HistoryMessage[]) => readonly HistoryMessage[],
    also: (tx: Transaction, gone: readonly HistoryMessage[]) => Promise<unknown> = async () => undefined,
    isNeeded: (tx: Transaction) => Promise<boolean> = async () => false,
  ): Promise<HistoryMessage[] | undefined> {
    return this.database
      .transaction(async (tx) => {
        await tx.query(LOCK_REWRITES);
        void tx.query(FORCE_INDEX_PLANS);
        if (await isNeeded(tx)) return undefined;
        const rows = await tx.query<{ body: Buffer }>(TAKE_BLOCKS, [blocks]);
        // The rows that were there are deleted again: to be put back, the transaction must fail.
        if (rows.length < blocks.length) throw new BlocksGone();
        const messages = (await Promise.all(rows.map(({ body }) => decodeBlock(body)))).flat();
        const kept = new Set(keep(messages));
        const gone = messages.filter((message) => !kept.has(message));
        await this.archive.write([...kept], tx);
        if (gone.length > 0) await this.forget(gone, tx);
        await also(tx, gone);
        return gone;
      })
      .catch((error) => {
        if (error instanceof BlocksGone) return undefined;
        throw error;
      });
  }

  private async addGap(gone: readonly HistoryMessage[], tx: Transaction): Promise<void> {
    const types = groupBy(gone, ({ type }) => type).map((messages) => [
      messages[0]!.type,
      new Date(Math.max(...messages.map(({ receivedMs }) => receivedMs))),
    ]);
    await tx.execute(ADD_GAP, [types.map(([type]) => type), types.map(([, to]) => to)]);
  }

  async addPartitions(): Promise<void> {
    await this.database.inOneRoundTrip([[LOCK_REWRITES], [ADD_PARTITIONS]]);
  }

  async dropEmptyPartitions(): Promise<void> {
    for (const { name } of await this.database.query<{ name: string }>(OLD_PARTITIONS)) {
      const [row] = await this.database.query<{ empty: boolean }>(IS_EMPTY(name));
      if (row!.empty) await this.database.query(DROP_PARTITION(name));
    }
  }

  private async forget(gone: readonly HistoryMessage[], tx: Transaction): Promise<void> {
    await tx.execute(FORGET, [
      gone.map(({ id }) => id),
      gone.map(({ source }) => source),
      gone.map(({ position }) => position),
    ]);
  }
}

class BlocksGone extends Error {}
