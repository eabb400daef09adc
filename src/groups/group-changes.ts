import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.ts';
import { AuditLog } from '../http/audit/audit-log.ts';
import { invalidFields, Problem } from '../http/problems.ts';
import { ListenersStore } from '../listeners/listeners-store.ts';
import { Topics } from '../topics/topics.ts';
import { TopicsStore } from '../topics/topics-store.ts';
import { deadTopicOf, type GroupRow, revivedTopicOf } from './group.ts';
import { GroupBalancer } from './group-balancer.ts';
import { contentOf, type GroupDefinition } from './group-definition.ts';
import { GroupsStore } from './groups-store.ts';

export interface GroupPut {
  readonly name: string;
  readonly definition: GroupDefinition;
  readonly origin: GroupRow['origin'];
  readonly by: string;
  /** For the audit log. */
  readonly reason?: string;
}

/** Creates, changes and deletes groups. */
@Injectable()
export class GroupChanges {
  constructor(
    private readonly definitions: ListenersStore,
    private readonly store: GroupsStore,
    private readonly topicsStore: TopicsStore,
    private readonly topics: Topics,
    private readonly balancer: GroupBalancer,
    private readonly audit: AuditLog,
  ) {}

  async put(
    name: string,
    definition: GroupDefinition,
    by: string,
  ): Promise<{ created: boolean; row: GroupRow }> {
    const done = await this.definitions.change((tx) =>
      this.putIn(tx, { name, definition, origin: 'api', by }),
    );
    await this.topics.refreshAfterChange();
    this.balancer.announce(done.row);
    return done;
  }

  /** In a transaction of `ListenersStore.change`, one writer at a time. */
  async putIn(tx: Transaction, put: GroupPut): Promise<{ created: boolean; row: GroupRow }> {
    const { name, definition, origin, by, reason } = put;
    await this.refuseUnknownTopics(definition.topics, tx);
    const before = await this.store.find(name, tx);
    if (before?.origin === 'file' && origin === 'api') throw ofFile('change');
    const row = await this.store.put(contentOf(name, definition, origin), by, tx);
    await this.store.matchCursors(row, tx);
    await this.ensureDeadTopic(name, by, tx);
    await this.audit.record({ by, action: 'group.put', target: name, reason }, tx);
    return { created: before === undefined, row };
  }

  /** The file no longer has it: it stays as it is, and from now on the API may change it. */
  async releaseIn(tx: Transaction, name: string, by: string): Promise<void> {
    await this.store.release(name, by, tx);
    await this.audit.record(
      { by, action: 'group.put', target: name, reason: 'released: not in the file' },
      tx,
    );
  }

  /** Its offsets are forgotten. Its dead letters stay readable as an ordinary topic. */
  async remove(name: string, by: string): Promise<void> {
    const row = await this.definitions.change(async (tx) => {
      const group = await this.store.lock(name, tx);
      if (group.origin === 'file') throw ofFile('remove');
      await this.store.delete(group, tx);
      const revived = await this.topicsStore.find(revivedTopicOf(name), tx);
      if (revived) await this.topicsStore.delete(revived, by, tx);
      await this.topicsStore.setKind(deadTopicOf(name), 'topic', tx);
      await this.audit.record({ by, action: 'group.delete', target: name }, tx);
      return group;
    });
    await this.topics.refreshAfterChange();
    this.balancer.announce(row);
  }

  private async refuseUnknownTopics(names: readonly string[], tx: Transaction): Promise<void> {
    const known = new Set((await this.topicsStore.live(tx)).map(({ name }) => name));
    const errors = names.flatMap((name, index) =>
      known.has(name)
        ? []
        : [{ pointer: `/topics/${index}`, detail: `names no topic: create "${name}" first` }],
    );
    if (errors.length) throw invalidFields(errors);
  }

  private async ensureDeadTopic(group: string, by: string, tx: Transaction): Promise<void> {
    const name = deadTopicOf(group);
    if (await this.topicsStore.find(name, tx)) return this.topicsStore.setKind(name, 'dead', tx);
    const topic = {
      name,
      partitions: 1,
      types: [],
      retention_ms: null,
      kind: 'dead',
      origin: 'group',
    } as const;
    await this.topicsStore.insert(topic, by, tx);
  }
}

function ofFile(what: string): Problem {
  return new Problem('conflict', `This group comes from LISTENERS_FILE; ${what} it there and start again.`);
}
