import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { PREVIOUS_VERSION } from '../database/adopt-tables.ts';
import { Database } from '../database/database.ts';
import { isConflictOfTransactions, isDatabaseAway } from '../database/errors.ts';
import { migrateInto } from '../database/migrate.ts';
import type { Transaction } from '../database/transaction.ts';
import { BUILT, FAIL, GRANTS, LOCK_BUILDING, OLD_VIEWS } from './build.sql.ts';
import { HistorySource } from './history-source.ts';
import { LaneSource } from './lane-source.ts';
import type { RegisteredModel } from './read-model-registry.ts';
import type { Rebuild } from './rebuild.ts';

export const DATABASE_URL = Symbol('database url');

/** How long a builder may be silent before its session is ended, so that another replica can build, and how often it is not. */
export const BUILDER = { silentMs: 60_000, pingMs: 15_000 };

/** Makes the next schema and its tables. After a crash, and when the database was away, it starts over. */
@Injectable()
export class Build {
  constructor(
    @Inject(DATABASE_URL) private readonly url: string,
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly database: Database,
    private readonly source: LaneSource,
    private readonly history: HistorySource,
  ) {}

  /** Returns whether it was built by this replica. */
  async run(rebuild: Rebuild, { readModel, name, types }: RegisteredModel): Promise<boolean> {
    return this.database.transaction(async (tx) => {
      // The migrations run on another connection; this one keeps other replicas from building, too.
      await tx.execute(`SET LOCAL idle_in_transaction_session_timeout = ${BUILDER.silentMs}`);
      const [mine] = await tx.query(LOCK_BUILDING, [rebuild.id]);
      if (!mine) return false;
      try {
        await whilePinging(tx, () => this.makeSchema(rebuild.target, name, readModel));
      } catch (error) {
        if (isDatabaseAway(error) || isConflictOfTransactions(error)) throw error;
        await tx.execute(FAIL, [rebuild.id, JSON.stringify({ error: (error as Error).message })]);
        return false;
      }
      const total = (await this.source.total()) + (await this.history.total(types));
      await tx.execute(BUILT, [rebuild.id, total]);
      return true;
    });
  }

  private async makeSchema(
    target: string,
    living: string,
    readModel: RegisteredModel['readModel'],
  ): Promise<void> {
    await this.database.execute(`DROP SCHEMA IF EXISTS ${target} CASCADE`);
    await migrateInto(this.url, this.settings, readModel, target);
    const grants = await this.database.query<{ sql: string }>(GRANTS, [living, target]);
    const views = await this.database.query<{ sql: string }>(OLD_VIEWS, [PREVIOUS_VERSION, living]);
    for (const { sql } of [...grants, ...views]) await this.database.execute(sql);
  }
}

/** A process that is frozen does not ping. */
async function whilePinging(tx: Transaction, work: () => Promise<void>): Promise<void> {
  // If the session is gone, the next statement of the transaction fails as well.
  const ping = () => void tx.query('SELECT 1').catch(() => undefined);
  const timer = setInterval(ping, BUILDER.pingMs);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
}
