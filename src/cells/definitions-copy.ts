import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import type { GroupRow } from '../groups/group.ts';
import { GroupsStore } from '../groups/groups-store.ts';
import { Listeners } from '../listeners/listeners.ts';
import { Topics } from '../topics/topics.ts';
import { TopicsStore } from '../topics/topics-store.ts';
import {
  ADD_LANES,
  ADD_PARTITIONS,
  ALL_GROUPS,
  COPIED,
  COPY_GROUPS,
  COPY_LISTENERS,
  COPY_TOPICS,
  DELETED_TOPICS,
  GROUPS_GONE,
  LOCK_COPY,
  READ_DEFINITIONS,
  SET_COPIED,
} from './definitions.sql.ts';

interface Definitions {
  readonly mark: string;
  /** JSON texts; null if nothing has changed. */
  readonly listeners: string | null;
  readonly topics: string | null;
  readonly groups: string | null;
}

/** The actor of what is deleted here because it was deleted in the home cell. */
const ENGINE = 'sluice';

/** Copies listeners, topics and groups from the home cell to another one, with their numbers and revisions. */
export class DefinitionsCopy {
  constructor(private readonly home: Database) {}

  /** Cheap when nothing has changed. */
  async bringTo(nest: NestFastifyApplication): Promise<void> {
    const database = nest.get(Database);
    const [copied] = await database.query<{ mark: string }>(COPIED);
    if ((await this.read(copied!.mark)).listeners === null) return;
    await database.transaction((tx) => this.copy(tx, nest));
  }

  /** The workers of this replica know them at once, those of others within a second. */
  async refresh(nest: NestFastifyApplication): Promise<void> {
    await Promise.all([nest.get(Listeners).refreshAfterChange(), nest.get(Topics).refreshAfterChange()]);
  }

  private async read(known: string): Promise<Definitions> {
    const [row] = await this.home.query<Definitions>(READ_DEFINITIONS, [known]);
    return row!;
  }

  private async copy(tx: Transaction, nest: NestFastifyApplication): Promise<void> {
    const [copied] = await tx.query<{ mark: string }>(LOCK_COPY);
    const { mark, listeners, topics, groups } = await this.read(copied!.mark);
    if (listeners === null) return;
    await tx.execute(COPY_LISTENERS, [listeners]);
    await tx.execute(ADD_LANES);
    await this.copyTopics(tx, topics!, nest.get(TopicsStore, { strict: false }));
    await this.copyGroups(tx, groups!, nest.get(GroupsStore, { strict: false }));
    await tx.execute(SET_COPIED, [mark]);
  }

  private async copyTopics(tx: Transaction, rows: string, store: TopicsStore): Promise<void> {
    await tx.execute(COPY_TOPICS, [rows]);
    await tx.execute(ADD_PARTITIONS);
    const deleted = await tx.query<{ number: number; name: string }>(DELETED_TOPICS);
    for (const topic of deleted) await store.delete(topic, ENGINE, tx);
  }

  private async copyGroups(tx: Transaction, rows: string, store: GroupsStore): Promise<void> {
    for (const gone of await tx.query<GroupRow>(GROUPS_GONE, [rows])) await store.delete(gone, tx);
    await tx.execute(COPY_GROUPS, [rows]);
    for (const group of await tx.query<GroupRow>(ALL_GROUPS)) await store.matchCursors(group, tx);
  }
}
