import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.ts';
import { AuditLog } from '../http/audit/audit-log.ts';
import { Problem } from '../http/problems.ts';
import { ListenersStore } from '../listeners/listeners-store.ts';
import { DEFAULT_PARTITIONS } from './topic.ts';
import { retentionOf, type TopicDefinition, typesOf } from './topic-definition.ts';
import { Topics } from './topics.ts';
import { type TopicRow, TopicsStore } from './topics-store.ts';

export interface TopicPut {
  readonly name: string;
  readonly definition: TopicDefinition;
  readonly origin: 'api' | 'file';
  readonly by: string;
  /** For the audit log. */
  readonly reason?: string;
}

/** All changes of topics. Effective on this replica at once, on the others with their next batch. */
@Injectable()
export class TopicChanges {
  constructor(
    private readonly definitions: ListenersStore,
    private readonly store: TopicsStore,
    private readonly topics: Topics,
    private readonly audit: AuditLog,
  ) {}

  put(name: string, definition: TopicDefinition, by: string): Promise<{ created: boolean }> {
    return this.change((tx) => this.putIn(tx, { name, definition, origin: 'api', by }));
  }

  /** In a transaction of `ListenersStore.change`, one writer at a time. */
  async putIn(tx: Transaction, put: TopicPut): Promise<{ created: boolean }> {
    const { name, definition, origin, by, reason } = put;
    const row = await this.store.find(name, tx);
    const content = { name, types: typesOf(name, definition), retention_ms: retentionOf(definition), origin };
    refuseOtherPartitions(row, definition);
    if (row?.origin === 'file' && origin === 'api') throw ofFile('change');
    if (row) await this.store.replace(content, by, tx);
    else {
      const partitions = definition.partitions ?? DEFAULT_PARTITIONS;
      await this.store.insert({ ...content, partitions, kind: 'topic' }, by, tx);
    }
    await this.audit.record({ by, action: 'topic.put', target: name, reason }, tx);
    return { created: row === undefined };
  }

  /** The file no longer has it: it stays as it is, and from now on the API may change it. */
  async releaseIn(tx: Transaction, name: string, by: string): Promise<void> {
    await this.store.release(name, by, tx);
    await this.audit.record(
      { by, action: 'topic.put', target: name, reason: 'released: not in the file' },
      tx,
    );
  }

  /** Groups lose their cursors in it; what they have in flight can no longer be committed. */
  remove(name: string, by: string): Promise<void> {
    return this.change(async (tx) => {
      const row = await this.store.existing(name, tx);
      if (row.origin === 'file') throw ofFile('remove');
      if (row.kind !== 'topic')
        throw new Problem('conflict', 'This topic belongs to a group, and is deleted with it.');
      await this.store.delete(row, by, tx);
      await this.audit.record({ by, action: 'topic.delete', target: name }, tx);
    });
  }

  private async change<Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result> {
    const result = await this.definitions.change(work);
    await this.topics.refreshAfterChange();
    return result;
  }
}

function ofFile(what: string): Problem {
  return new Problem('conflict', `This topic comes from LISTENERS_FILE; ${what} it there and start again.`);
}

/** The partition of a key depends on their number: with another number, a key would be in two of them. */
function refuseOtherPartitions(row: TopicRow | undefined, { partitions }: TopicDefinition): void {
  if (!row || partitions === undefined || partitions === row.partitions) return;
  throw new Problem(
    'partitions-fixed',
    `A topic keeps its number of partitions, here ${row.partitions}; leave partitions out, or create another topic with ${partitions}.`,
    { errors: [{ pointer: '/partitions', detail: `must be ${row.partitions}` }] },
  );
}
