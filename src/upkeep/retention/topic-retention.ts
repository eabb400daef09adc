import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import type { Transaction } from '../../database/transaction.ts';
import { keptForMs } from '../../topics/kept-for.ts';
import { TopicsStore } from '../../topics/topics-store.ts';
import { payloadStep, removeInSteps, type SweepContext } from './retention-step.ts';
import {
  DELETED_TOPICS,
  MOVE_EARLIEST,
  OLD_PARTITIONS,
  REMOVE_ENTRIES,
  REMOVE_ENTRIES_OF,
  REMOVE_REJECTIONS,
  REMOVE_REJECTIONS_OF,
  REMOVE_TOPICS,
} from './topic-retention.sql.ts';

interface OldPartition {
  readonly topic: number;
  readonly partition: number;
  readonly earliest: number;
  readonly ms: number;
}

/** Removes the messages of topics after their retention, and what deleted topics left. Their payloads go with the inbox. */
@Injectable()
export class TopicRetention {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly database: Database,
    private readonly topics: TopicsStore,
  ) {}

  /** `onRemoved` is called with the number of messages that a step removed. */
  async sweep(context: SweepContext, onRemoved: (messages: number) => void): Promise<void> {
    for (const partition of await this.oldPartitions())
      await this.removeFromHead(partition, context, onRemoved);
    const deleted = await this.database.query<{ number: number }>(DELETED_TOPICS);
    for (const { number } of deleted) await this.removeAllOf(number, context, onRemoved);
    if (deleted.length > 0) await this.step((tx) => tx.execute(REMOVE_TOPICS));
  }

  private async oldPartitions(): Promise<readonly OldPartition[]> {
    const topics = await this.topics.live();
    const retentions = topics.map((topic) => keptForMs(topic, this.settings));
    const values = [topics.map(({ number }) => number), retentions];
    const [, rows] = await this.database.inOneRoundTrip([[FORCE_INDEX_PLANS], [OLD_PARTITIONS, values]]);
    return rows as OldPartition[];
  }

  /** Moves `earliest` in the same transaction: a reader that finds no message at an offset knows that it was removed. */
  private async removeFromHead(
    { topic, partition, earliest, ms }: OldPartition,
    context: SweepContext,
    onRemoved: (messages: number) => void,
  ): Promise<void> {
    let from = earliest;
    await removeInSteps(context, async (maxRows) => {
      const removed = await this.step(async (tx) => {
        const values = [topic, partition, from, ms, maxRows];
        const [row] = await tx.query<{ earliest: number; removed: number }>(REMOVE_ENTRIES, values);
        from = row!.earliest;
        await tx.commitWith(() => [
          tx.execute(REMOVE_REJECTIONS, [topic, from]),
          tx.execute(MOVE_EARLIEST, [topic, partition, from]),
        ]);
        return row!.removed;
      });
      onRemoved(removed);
      return removed;
    });
  }

  private async removeAllOf(
    topic: number,
    context: SweepContext,
    onRemoved: (messages: number) => void,
  ): Promise<void> {
    const some = (sql: string, maxRows: number) => this.step((tx) => tx.execute(sql, [topic, maxRows]));
    await removeInSteps(context, async (maxRows) => {
      const removed = await some(REMOVE_ENTRIES_OF, maxRows);
      onRemoved(removed);
      return removed;
    });
    await removeInSteps(context, (maxRows) => some(REMOVE_REJECTIONS_OF, maxRows));
  }

  /** Returns how many rows were removed: none if another replica is sweeping. */
  private async step(remove: (tx: Transaction) => Promise<number>): Promise<number> {
    const removed = await payloadStep(this.database, (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      return remove(tx);
    });
    return removed ?? 0;
  }
}
