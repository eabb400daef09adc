import type { DataSourceOptions, EntitySchema, Logger, MixedList } from 'typeorm';
import type { Settings } from '../config/settings.ts';
import { connectionOptions, firstServerOf } from './connection.ts';
import { ReadPool } from './read-place.ts';

// biome-ignore lint/complexity/noBannedTypes: TypeORM's own signature for a class
type Class = Function;

/** The entities and migrations of a read model, or of the engine. */
export interface SchemaPart {
  /** The PostgreSQL schema of its tables. The engine has none: its tables are in `public`. */
  readonly name?: string;
  readonly entities: readonly Class[];
  readonly migrations: readonly Class[];
}

/** Options of TypeORM, which runs entities, repositories and migrations and owns the pool of the read API. */
export function dataSourceOptions(
  url: string,
  settings: Settings,
  parts: readonly SchemaPart[],
): DataSourceOptions {
  return {
    type: 'postgres',
    driver: { Pool: ReadPool },
    url: firstServerOf(url),
    entities: parts.flatMap((part) => part.entities) as MixedList<Class | string | EntitySchema>,
    migrations: parts.flatMap((part) => part.migrations) as MixedList<Class | string>,
    migrationsTableName: 'migration',
    migrationsTransactionMode: 'each',
    synchronize: false,
    logger: SILENT_LOGGER,
    extra: connectionOptions(url, settings, 'sluice read', schemasOf(parts)),
  };
}

/** The schemas of the read models among them. */
export function schemasOf(parts: readonly SchemaPart[]): string[] {
  return parts.flatMap(({ name }) => (name === undefined ? [] : [name]));
}

function ignore(): void {}

/** TypeORM prints a failed migration to the terminal even with logging off; the caller gets the exception anyway. */
const SILENT_LOGGER: Logger = {
  logQuery: ignore,
  logQueryError: ignore,
  logQuerySlow: ignore,
  logSchemaBuild: ignore,
  logMigration: ignore,
  log: ignore,
};
