import type { DataSourceOptions, EntitySchema, Logger, MixedList } from 'typeorm';
import type { Settings } from '../config/settings.ts';
import { connectionOptions } from './connection.ts';
import { DrainingPool } from './draining-pool.ts';

// biome-ignore lint/complexity/noBannedTypes: TypeORM's own signature for a class
type Class = Function;

/** What a read model, or the engine, adds to the schema. */
export interface SchemaPart {
  readonly entities: readonly Class[];
  readonly migrations: readonly Class[];
}

/** TypeORM: entities, repositories and migrations; the read API's pool. */
export function dataSourceOptions(
  url: string,
  settings: Settings,
  parts: readonly SchemaPart[],
): DataSourceOptions {
  return {
    type: 'postgres',
    driver: { Pool: DrainingPool },
    url,
    entities: parts.flatMap((part) => part.entities) as MixedList<Class | string | EntitySchema>,
    migrations: parts.flatMap((part) => part.migrations) as MixedList<Class | string>,
    migrationsTableName: 'migration',
    migrationsTransactionMode: 'each',
    synchronize: false,
    logger: SILENCE,
    extra: connectionOptions(url, settings, 'sluice read'),
  };
}

function ignore(): void {}

/** TypeORM prints a failed migration to the terminal, whatever it is told; its caller gets the exception. */
const SILENCE: Logger = {
  logQuery: ignore,
  logQueryError: ignore,
  logQuerySlow: ignore,
  logSchemaBuild: ignore,
  logMigration: ignore,
  log: ignore,
};
