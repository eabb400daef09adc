import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { DataSource, type MigrationInterface } from 'typeorm';
import type { Settings } from '../config/settings.ts';
import { closeClient } from './close-client.ts';
import { dataSourceOptions, type SchemaPart } from './data-source-options.ts';

/** A migration did not go through; the message is one line with the next step. */
export class MigrationError extends Error {}

/** Any constant of ours: one migrator at a time over all replicas. */
const MIGRATION_LOCK = 5_107_205_318_271;

/** The guard idles through its migrations, whatever limits the role has; and holds no snapshot while it does. */
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = 0';
const ASK = `SELECT pg_try_advisory_xact_lock(${MIGRATION_LOCK}) AS taken`;
const ASK_AGAIN_MS = 100;
/** The guard's statements wait for nobody. */
const ANSWERED_WITHIN_MS = 30_000;

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
  const guard = new pg.Client({
    connectionString: url,
    application_name: 'sluice migrate',
    connectionTimeoutMillis: settings.databaseConnectTimeout,
    query_timeout: ANSWERED_WITHIN_MS,
  });
  try {
    await guard.connect();
    while (!(await takeTurn(guard))) await pause(ASK_AGAIN_MS);
    return await runPending(url, settings, parts);
  } finally {
    await closeClient(guard);
  }
}

/**
 * CREATE INDEX CONCURRENTLY waits until every older snapshot is gone; held by a guard it would be waited for without end,
 * and PostgreSQL sees no deadlock in that. So those whose turn it is not ask again instead of waiting inside
 * pg_advisory_xact_lock, and the statement has no parameters: with one, node-postgres leaves its portal open, and the
 * snapshot with it, until the transaction ends.
 */
async function takeTurn(guard: pg.Client): Promise<boolean> {
  await guard.query(BEGIN);
  const { rows } = await guard.query(ASK);
  if (!rows[0].taken) await guard.query('ROLLBACK');
  return rows[0].taken;
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
      const reason = (error as Error).message;
      throw new MigrationError(
        isInTransaction(dataSource, failed)
          ? `migration ${failed} failed and was rolled back (${reason}); ` +
              'the migrations before it stay, nothing else changed: mend the cause and start again'
          : `migration ${failed} failed (${reason}) and has no transaction, so what it had done stays; ` +
              'the migrations before it stay, too: mend the cause and start again',
      );
    }
  });
}

async function pendingOf(dataSource: DataSource): Promise<string[]> {
  const [table] = await dataSource.query(`SELECT to_regclass('migration') IS NOT NULL AS there`);
  const done: { name: string }[] = table.there ? await dataSource.query('SELECT name FROM migration') : [];
  const names = new Set(done.map(({ name }) => name));
  const all = dataSource.migrations.map(nameOf);
  return all.filter((name) => !names.has(name)).sort((a, b) => timeOf(a) - timeOf(b));
}

function isInTransaction(dataSource: DataSource, name: string | undefined): boolean {
  return dataSource.migrations.find((migration) => nameOf(migration) === name)?.transaction !== false;
}

function nameOf(migration: MigrationInterface): string {
  return migration.name ?? migration.constructor.name;
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
      connectionTimeoutMillis: settings.databaseConnectTimeout,
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
