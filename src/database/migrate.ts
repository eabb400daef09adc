import pg from 'pg';
import { DataSource } from 'typeorm';
import type { Settings } from '../config/settings.ts';
import { dataSourceOptions, type SchemaPart } from './data-source-options.ts';

/** A migration did not go through; the message is one line with the next step. */
export class MigrationError extends Error {}

/** Any constant of ours: one migrator at a time over all replicas. */
const MIGRATION_LOCK = 5_107_205_318_271;

/** The guard waits for the others' migrations and through its own, whatever limits the role has. */
const NO_LIMITS = ['idle_in_transaction_session_timeout', 'statement_timeout', 'lock_timeout']
  .map((limit) => `SET LOCAL ${limit} = 0`)
  .join('; ');

/** Longest wait for a table lock: a migration that queues behind a long reader would stop every writer. */
const LOCK_TIMEOUT = '5s';

/**
 * Brings the schema up to date; safe when many replicas start at once. Returns the names of what was run.
 * The lock lives in a transaction, so that it also holds through a pooler in transaction mode.
 */
export async function migrate(
  url: string,
  settings: Settings,
  parts: readonly SchemaPart[],
): Promise<string[]> {
  const guard = new pg.Client({ connectionString: url, application_name: 'sluice migrate' });
  await guard.connect();
  try {
    await guard.query('BEGIN');
    await guard.query(NO_LIMITS);
    await guard.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
    return await runPending(url, settings, parts);
  } finally {
    await guard.end();
  }
}

/** Names of the migrations this version has and the database lacks. */
export async function pendingMigrations(
  url: string,
  settings: Settings,
  parts: readonly SchemaPart[],
): Promise<string[]> {
  return withDataSource(url, settings, parts, pendingOf);
}

async function runPending(url: string, settings: Settings, parts: readonly SchemaPart[]): Promise<string[]> {
  return withDataSource(url, settings, parts, async (dataSource) => {
    try {
      const run = await dataSource.runMigrations();
      return run.map((migration) => migration.name);
    } catch (error) {
      const [failed] = await pendingOf(dataSource);
      throw new MigrationError(
        `migration ${failed} failed and was rolled back (${(error as Error).message}); ` +
          'the migrations before it stay, nothing else changed: mend the cause and start again',
      );
    }
  });
}

async function pendingOf(dataSource: DataSource): Promise<string[]> {
  const [table] = await dataSource.query(`SELECT to_regclass('migration') IS NOT NULL AS there`);
  const done: { name: string }[] = table.there ? await dataSource.query('SELECT name FROM migration') : [];
  const names = new Set(done.map(({ name }) => name));
  const all = dataSource.migrations.map((migration) => migration.name ?? migration.constructor.name);
  return all.filter((name) => !names.has(name)).sort((a, b) => timeOf(a) - timeOf(b));
}

/** TypeORM runs migrations in the order of the time at the end of their names. */
function timeOf(name: string): number {
  return Number(name.slice(-13));
}

async function withDataSource<Result>(
  url: string,
  settings: Settings,
  parts: readonly SchemaPart[],
  work: (dataSource: DataSource) => Promise<Result>,
): Promise<Result> {
  const options = dataSourceOptions(url, settings, parts);
  const dataSource = new DataSource({
    ...options,
    extra: {
      connectionString: url,
      application_name: 'sluice migrate',
      max: 1,
      options: settings.databasePooler === 'none' ? `-c lock_timeout=${LOCK_TIMEOUT}` : undefined,
    },
  } as typeof options);
  await dataSource.initialize();
  try {
    return await work(dataSource);
  } finally {
    await dataSource.destroy();
  }
}
