import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.ts';
import { ListenersStore } from '../listeners/listeners-store.ts';
import { Topics } from '../topics/topics.ts';
import { TopicsStore } from '../topics/topics-store.ts';
import { revivedTopicOf } from './group.ts';
import { GroupBalancer } from './group-balancer.ts';
import { GroupsStore } from './groups-store.ts';

/** groups.revivedTopic — no row: there is no such group; null: it has no such topic yet. $1 group */
export const REVIVED_TOPIC = `
  SELECT consumer_group.name, topic.number AS topic FROM consumer_group
  LEFT JOIN topic ON topic.name = consumer_group.name || '.revived' AND topic.deleted_at IS NULL
  WHERE consumer_group.number = $1`;

/** `{group}.revived`: what was revived of a group's dead letters, for that group alone. Created with the first of them. */
@Injectable()
export class RevivedTopics {
  constructor(
    private readonly definitions: ListenersStore,
    private readonly groups: GroupsStore,
    private readonly topicsStore: TopicsStore,
    private readonly topics: Topics,
    private readonly balancer: GroupBalancer,
  ) {}

  /** Undefined: there is no such group. Its topic is null if it has none yet. */
  async of(
    group: number,
    tx: Transaction,
  ): Promise<{ readonly name: string; readonly topic: number | null } | undefined> {
    const [row] = await tx.query<{ name: string; topic: number | null }>(REVIVED_TOPIC, [group]);
    return row;
  }

  /** Nothing happens if it exists. */
  async create(group: string, by: string): Promise<void> {
    const name = revivedTopicOf(group);
    const row = await this.definitions.change(async (tx) => {
      const locked = await this.groups.lock(group, tx);
      if (await this.topicsStore.find(name, tx)) return locked;
      const topic = {
        partitions: 1,
        types: [],
        retention_ms: null,
        kind: 'revived',
        origin: 'group',
      } as const;
      await this.topicsStore.insert({ name, ...topic }, by, tx);
      // A partition without an owner is assigned with the next poll of any member.
      await this.groups.matchCursors(locked, tx);
      return locked;
    });
    await this.topics.refreshAfterChange();
    this.balancer.announce(row);
  }
}
