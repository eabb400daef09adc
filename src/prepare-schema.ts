import type { Settings } from './config/settings.ts';
import type { ReadModel } from './contract/read-model.ts';
import { MigrationError, migrate, pendingMigrations } from './database/migrate.ts';
import { schemaOf } from './schema.ts';
import type { Log } from './telemetry/logger.ts';

/** Brings the schema up to date; with MIGRATIONS=off, refuses to run on one that is not. */
export async function prepareSchema(
  databaseUrl: string,
  settings: Settings,
  log: Log,
  readModels: readonly ReadModel[],
): Promise<void> {
  const schema = schemaOf(readModels);
  if (settings.migrations === 'off') {
    const pending = await pendingMigrations(databaseUrl, settings, schema);
    if (pending.length === 0) return;
    throw new MigrationError(
      `these migrations have not run: ${pending.join(', ')}; run "npm run migrate" first`,
    );
  }
  const names = await migrate(databaseUrl, settings, schema);
  if (names.length) log.info({ event: 'database.migrated', migrations: names }, 'the schema is up to date');
}
