import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.ts';
import { TopicsStore } from '../topics/topics-store.ts';
import { deadTopicOf, type GroupRow } from './group.ts';
import { BLOCK_RETENTION, DISCARD, LOCK_DEAD, LOCK_REJECTIONS, REJECT, REVIVE } from './rejections.sql.ts';

export interface Rejection {
  readonly topic: number;
  readonly partition: number;
  readonly offset: number;
  /** Of the cursor that handed it out. */
  readonly fence: number;
  readonly reason: string;
}

export interface RejectionCounts {
  /** How many were recorded; one that was recorded before does not count. */
  readonly recorded: number;
  /** How many could not be: retention had removed the message. */
  readonly expired: number;
}

/** Rejections of a group that an operator decides about. */
export interface RejectionRuling {
  readonly group: number;
  readonly positions: readonly number[];
  readonly by: string;
}

interface PositionRow {
  readonly position: number;
}

/** The dead letters of groups: what consumers rejected, readable as the topic `{group}.dead`. */
@Injectable()
export class RejectionsStore {
  constructor(private readonly topics: TopicsStore) {}

  async reject(
    { number, name }: Pick<GroupRow, 'number' | 'name'>,
    rejected: readonly Rejection[],
    tx: Transaction,
  ): Promise<RejectionCounts> {
    if (rejected.length === 0) return { recorded: 0, expired: 0 };
    const dead = await this.topics.existing(deadTopicOf(name), tx);
    await tx.query(BLOCK_RETENTION);
    await tx.query(LOCK_DEAD, [dead.number]);
    const [row] = await tx.query<RejectionCounts>(REJECT, [
      number,
      dead.number,
      rejected.map(({ topic }) => topic),
      rejected.map(({ partition }) => partition),
      rejected.map(({ offset }) => offset),
      rejected.map(({ fence }) => fence),
      rejected.map(({ reason }) => reason),
    ]);
    return row!;
  }

  /** Their group gets them again, as the last messages of `topic`. Returns the positions of those that were dead letters. */
  async revive(
    { group, topic, positions, by }: RejectionRuling & { readonly topic: number },
    tx: Transaction,
  ): Promise<number[]> {
    await tx.query(BLOCK_RETENTION);
    const dead = await this.lock(group, positions, tx);
    const inOrder = positions.filter((position) => dead.has(position));
    return positionsOf(await tx.query<PositionRow>(REVIVE, [topic, inOrder, by]));
  }

  /** Returns the positions of those that were dead letters. */
  async discard({ group, positions, by }: RejectionRuling, tx: Transaction): Promise<number[]> {
    const dead = await this.lock(group, positions, tx);
    return positionsOf(await tx.query<PositionRow>(DISCARD, [[...dead], by]));
  }

  private async lock(
    group: number,
    positions: readonly number[],
    tx: Transaction,
  ): Promise<ReadonlySet<number>> {
    return new Set(positionsOf(await tx.query<PositionRow>(LOCK_REJECTIONS, [group, positions])));
  }
}

function positionsOf(rows: readonly PositionRow[]): number[] {
  return rows.map(({ position }) => position);
}
