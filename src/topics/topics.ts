import { Injectable } from '@nestjs/common';
import { Loops } from '../clock/loops.ts';
import type { Transaction } from '../database/transaction.ts';
import { TypeIndex } from '../listeners/type-patterns.ts';
import type { Topic } from './topic.ts';
import { TopicsStore } from './topics-store.ts';

const REFRESH_MS = 1_000;

interface TopicSnapshot {
  readonly revision: number;
  readonly byName: ReadonlyMap<string, Topic>;
  readonly index: TypeIndex<Topic>;
}

/** All topics as of the last refresh, from memory. */
@Injectable()
export class Topics {
  private snapshot: TopicSnapshot | undefined;
  private refreshes = 0;
  private applied = 0;

  constructor(
    private readonly store: TopicsStore,
    loops: Loops,
  ) {
    loops.every('any', 'topics', REFRESH_MS, () => this.refresh());
  }

  /** The topics that a type is appended to. */
  of(type: string): readonly Topic[] {
    return this.now.index.of(type);
  }

  /** May be a second old. */
  named(name: string): Topic | undefined {
    return this.now.byName.get(name);
  }

  /** Rejects if the topics in memory are not those that this transaction sees. */
  stillCurrent(tx: Transaction): Promise<void> {
    return this.store.stillAt(this.now.revision, tx);
  }

  /** Cheap when nothing has changed. */
  async refresh(): Promise<void> {
    const refresh = ++this.refreshes;
    const revision = await this.store.revision();
    if (this.snapshot?.revision === revision) return;
    const topics = await this.store.live();
    // Two concurrent refreshes may end in reverse order: the later one counts.
    if (refresh < this.applied) return;
    this.applied = refresh;
    this.snapshot = {
      revision,
      byName: new Map(topics.map((topic) => [topic.name, topic])),
      index: new TypeIndex(topics),
    };
  }

  /** The change is stored: if the database is away now, this replica reads it later, like the others. */
  async refreshAfterChange(): Promise<void> {
    await this.refresh().catch(() => undefined);
  }

  private get now(): TopicSnapshot {
    if (!this.snapshot) throw new Error('topics were not loaded yet');
    return this.snapshot;
  }
}
