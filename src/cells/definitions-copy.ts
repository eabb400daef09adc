import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import type { GroupRow } from '../groups/group.ts';
import { GroupsStore } from '../groups/groups-store.ts';
import { Listeners } from '../listeners/listeners.ts';
import { Topics } from '../topics/topics.ts';
import { TopicsStore } from '../topics/topics-store.ts';
import { CellRefused } from './cell-refused.ts';
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
import { withinMs } from './within-ms.ts';

interface Definitions {
  readonly mark: string;
  /** JSON texts; null if nothing has changed. */
  readonly listeners: string | null;
  readonly topics: string | null;
  readonly groups: string | null;
}

/** Less than what a keeper gives a cell: a home cell that is silent does not make the others seem away. */
const HOME_TIMEOUT_MS = 2_000;

/** Nothing can be defined meanwhile, so a cell that has all definitions continues. */
export class HomeUnavailable extends Error {}

type Statements = Pick<Transaction, 'query'>;

/** The actor of what is deleted here because it was deleted in the home cell. */
const ENGINE = 'sluice';

/** Which cell a database must be. */
export interface CellIdentity {
  readonly catalogue: string;
  readonly number: number;
}

/** Copies listeners, topics and groups from the home cell to another one, with their numbers and revisions. */
export class DefinitionsCopy {
  constructor(private readonly home: Database) {}

  /** Cheap when nothing has changed. Throws if the URL points at another database by now. */
  async bringTo(nest: NestFastifyApplication, cell: CellIdentity): Promise<void> {
    const database = nest.get(Database);
    const mark = await markOf(database, COPIED, cell);
    if ((await this.read(mark)).listeners === null) return;
    await database.transaction((tx) => this.copy(tx, nest, cell));
  }

  /** The workers of this replica know them at once, those of others within a second. */
  async refresh(nest: NestFastifyApplication): Promise<void> {
    await Promise.all([nest.get(Listeners).refreshAfterChange(), nest.get(Topics).refreshAfterChange()]);
  }

  private async read(known: string): Promise<Definitions> {
    try {
      const read = this.home.query<Definitions>(READ_DEFINITIONS, [known]);
      return (await withinMs(HOME_TIMEOUT_MS, read))[0]!;
    } catch (error) {
      throw new HomeUnavailable('the definitions of the home cell cannot be read', { cause: error });
    }
  }

  private async copy(tx: Transaction, nest: NestFastifyApplication, cell: CellIdentity): Promise<void> {
    const known = await markOf(tx, LOCK_COPY, cell);
    const { mark, listeners, topics, groups } = await this.read(known);
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

/** Throws unless the database is this cell. */
export async function refuseOtherCell(on: Statements, cell: CellIdentity): Promise<void> {
  await markOf(on, COPIED, cell);
}

async function markOf(on: Statements, sql: string, { catalogue, number }: CellIdentity): Promise<string> {
  const [row] = await on.query<{ mark: string }>(sql, [catalogue, number]);
  if (row) return row.mark;
  throw new CellRefused(
    'its URL points at a database that is not this cell; compare CELLS and the name service',
  );
}
