import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import { isName } from '../http/names.ts';
import { Problem } from '../http/problems.ts';
import type { Topic } from './topic.ts';
import {
  DELETE_CURSORS,
  DELETE_PARTITIONS,
  DELETE_TOPIC,
  FIND_TOPIC,
  INSERT_TOPIC,
  LIVE_TOPICS,
  RELEASE_TOPIC,
  REPLACE_TOPIC,
  REVISION,
  SET_KIND,
  STILL_CURRENT,
  TOPIC_WITH_TAILS,
  TOPICS_PAGE,
  UNBALANCE_GROUPS,
} from './topics.sql.ts';

export interface TopicRow extends Topic {
  readonly revision: number;
  readonly origin: 'api' | 'file' | 'group';
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly updated_by: string;
}

export interface Tail {
  readonly partition: number;
  /** The first offset that is kept. */
  readonly earliest: number;
  /** The offset of the next entry. */
  readonly next: number;
}

export type NewTopic = Pick<TopicRow, 'name' | 'partitions' | 'types' | 'retention_ms' | 'kind' | 'origin'>;

@Injectable()
export class TopicsStore {
  constructor(private readonly database: Database) {}

  async revision(): Promise<number> {
    const [row] = await this.database.query<{ revision: number }>(REVISION);
    return row!.revision;
  }

  /** Rejects if anything has changed since. */
  async stillAt(revision: number, tx: Transaction): Promise<void> {
    await tx.query(STILL_CURRENT, [revision]);
  }

  live(tx: Pick<Transaction, 'query'> = this.database): Promise<TopicRow[]> {
    return tx.query(LIVE_TOPICS);
  }

  async find(name: string, tx: Pick<Transaction, 'query'> = this.database): Promise<TopicRow | undefined> {
    const [row] = await tx.query<TopicRow>(FIND_TOPIC, [name]);
    return row;
  }

  /** Throws a 404 if there is none. */
  async existing(name: string, tx: Pick<Transaction, 'query'> = this.database): Promise<TopicRow> {
    const row = isName(name) ? await this.find(name, tx) : undefined;
    if (!row) throw noTopic(name);
    return row;
  }

  async withTails(name: string): Promise<TopicRow & { tails: Tail[] }> {
    const rows = isName(name)
      ? await this.database.query<TopicRow & { tails: Tail[] }>(TOPIC_WITH_TAILS, [name])
      : [];
    if (!rows[0]) throw noTopic(name);
    return rows[0];
  }

  page(after: string | undefined, limit: number): Promise<(TopicRow & { tails: Tail[] })[]> {
    return this.database.query(TOPICS_PAGE, [after ?? '', limit]);
  }

  async insert(topic: NewTopic, by: string, tx: Transaction): Promise<TopicRow> {
    const { name, partitions, types, retention_ms, kind, origin } = topic;
    const values = [name, partitions, types, retention_ms, kind, origin, by];
    const [row] = await tx.query<TopicRow>(INSERT_TOPIC, values);
    await tx.execute(UNBALANCE_GROUPS, [name]);
    return row!;
  }

  async replace(
    { name, types, retention_ms, origin }: Pick<TopicRow, 'name' | 'types' | 'retention_ms' | 'origin'>,
    by: string,
    tx: Transaction,
  ): Promise<TopicRow> {
    const [row] = await tx.query<TopicRow>(REPLACE_TOPIC, [name, types, retention_ms, origin, by]);
    return row!;
  }

  async release(name: string, by: string, tx: Transaction): Promise<void> {
    await tx.execute(RELEASE_TOPIC, [name, by]);
  }

  async setKind(name: string, kind: Topic['kind'], tx: Transaction): Promise<void> {
    await tx.execute(SET_KIND, [name, kind]);
  }

  async delete({ number, name }: Pick<Topic, 'number' | 'name'>, by: string, tx: Transaction): Promise<void> {
    await tx.execute(DELETE_TOPIC, [number, by]);
    await tx.execute(UNBALANCE_GROUPS, [name]);
    await tx.execute(DELETE_CURSORS, [number]);
    // Last: a commit with rejections has its cursors, and may wait for retention, which may wait for a partition.
    await tx.execute(DELETE_PARTITIONS, [number]);
  }
}

export function noTopic(name: string): Problem {
  return new Problem('not-found', `No topic has the name "${name.slice(0, 100)}".`);
}
