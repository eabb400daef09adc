import { Injectable } from '@nestjs/common';
import type { Transaction } from '../../database/transaction.ts';
import { RejectionsStore } from '../../groups/rejections-store.ts';
import { RevivedTopics } from '../../groups/revived-topics.ts';
import type { ActionKind } from './dead-letter-action.ts';

/** Rolls back a revive: the topic that it appends to has to be created first. */
export class NoRevivedTopic extends Error {
  constructor(
    readonly group: string,
    readonly by: string,
  ) {
    super(`the group ${group} has no topic for revived messages`);
  }
}

/** What an operator does with the messages that a group rejected. */
@Injectable()
export class GroupActions {
  constructor(
    private readonly rejections: RejectionsStore,
    private readonly topics: RevivedTopics,
  ) {}

  /** Returns those that were still dead letters. Throws NoRevivedTopic. */
  async apply(
    tx: Transaction,
    kind: ActionKind,
    group: number,
    positions: readonly number[],
    by: string,
  ): Promise<number[]> {
    if (kind === 'discard') return this.rejections.discard({ group, positions, by }, tx);
    const found = await this.topics.of(group, tx);
    if (!found) return [];
    if (found.topic === null) throw new NoRevivedTopic(found.name, by);
    return this.rejections.revive({ group, topic: found.topic, positions, by }, tx);
  }

  /** Runs `work`; if it needs the topic of a group, a second time with it. */
  async withTopics<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof NoRevivedTopic)) throw error;
      await this.topics.create(error.group, error.by);
      return this.withTopics(work);
    }
  }
}
