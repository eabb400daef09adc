import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { DataSource, type MigrationInterface } from 'typeorm';
import type { Settings } from '../config/settings.ts';
import { adoptTables } from './adopt-tables.ts';
import { closeClient } from './close-client.ts';
import { firstServerOf } from './connection.ts';
import { dataSourceOptions, type SchemaPart, schemasOf } from './data-source-options.ts';
import {
  checkModelNames,
  refuseSchemasOfEntities,
  refuseSharedTables,
  withSearchPath,
} from './model-schemas.ts';
import { Primary } from './primary.ts';
import { clientOf } from './primary-client.ts';
import { clientWithSearchPath } from './search-path-client.ts';
import { queryServer } from './server-check.ts';

/** A migration failed; the message is one line with the next step. */
export class MigrationError extends Error {}

/** An arbitrary advisory lock number: of all replicas, one migrates at a time. */
export const MIGRATION_LOCK = 5_107_205_318_271;

/**
 * The guard is the connection that holds the lock. It is idle in its transaction while migrations run on another
 * connection, whatever limits its role has, and holds no snapshot meanwhile.
 */
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = 0';
const TRY_LOCK = `SELECT pg_try_advisory_xact_lock(${MIGRATION_LOCK}) AS taken`;
const LOCK_POLL_MS = 100;
/** Statements of the guard never wait for a lock. */
const GUARD_TIMEOUT_MS = 30_000;

/** Max wait for a table lock: while a migration waits behind a long-running reader, every writer waits behind it. */
const LOCK_TIMEOUT = '5s';

/**
 * Brings the schema up to date; safe when many replicas start at once. Returns the names of the migrations it ran. The lock
 * is bound to a transaction, so that it also works behind a pooler in transaction mode. The engine's migrations run in
 * `public`; those of each read model in its own schema, with a record of their own.
 */
export async function migrate(
  url: string,
  settings: Settings,
  parts: readonly SchemaPart[],
): Promise<string[]> {
  const Client = clientOf(pg.Client, Primary.of(url));
  const guard = new Client({
    connectionString: firstServerOf(url),
    application_name: 'sluice migrate',
    connectionTimeoutMillis: settings.databaseConnectTimeout,
    query_timeout: GUARD_TIMEOUT_MS,
  });
  // If the server ends the connection between two statements, the next one fails. Without a handler the process would end.
  guard.on('error', () => undefined);
  try {
    await guard.connect();
    while (!(await tryLock(guard))) await pause(LOCK_POLL_MS);
    const names: string[] = [];
    for (const target of targetsOf(parts)) names.push(...(await runPending(url, settings, target)));
    await refuseSharedTables(guard, schemasOf(parts));
    return names;
  } finally {
    await closeClient(guard);
  }
}

/**
 * CREATE INDEX CONCURRENTLY waits until every older snapshot is released. If a guard held one, that wait would never end,
 * and PostgreSQL does not detect it as a deadlock. So a guard that does not get the lock polls instead of waiting inside
 * pg_advisory_xact_lock, and the statement has no parameters: with a parameter node-postgres keeps its portal open, and
 * the snapshot with it, until the transaction ends.
 */
async function tryLock(guard: pg.Client): Promise<boolean> {
  await guard.query(BEGIN);
  const { rows } = await guard.query(TRY_LOCK);
  if (!rows[0].taken) await guard.query('ROLLBACK');
  return rows[0].taken;
}

/** Names of the migrations of this version that have not run on the database. */
export async function pendingMigrations(
  url: string,
  settings: Settings,
  parts: readonly SchemaPart[],
): Promise<string[]> {
  const names: string[] = [];
  for (const target of targetsOf(parts))
    names.push(
      ...(await withDataSource(url, settings, target, (dataSource) => pendingOf(dataSource, target.schema))),
    );
  return names;
}

/** Runs the migrations of a read model in a schema that is not the living one. */
export async function migrateInto(
  url: string,
  settings: Settings,
  part: SchemaPart,
  schema: string,
): Promise<string[]> {
  return runPending(url, settings, { parts: [part], schema, adopts: false, maxIdle: '60s' });
}

/** What runs together, and the schema it runs in. */
interface Target {
  readonly parts: readonly SchemaPart[];
  readonly schema: string;
  /** Earlier versions have created its tables in `public`. */
  readonly adopts: boolean;
  /** How long a process that was frozen may keep the locks of its transaction. Absent: as the server is set. */
  readonly maxIdle?: string;
}

function targetsOf(parts: readonly SchemaPart[]): Target[] {
  const models = parts.filter((part): part is SchemaPart & { name: string } => part.name !== undefined);
  checkModelNames(models);
  const engine = parts.filter(({ name }) => name === undefined);
  return [
    ...(engine.length > 0 ? [{ parts: engine, schema: 'public', adopts: false }] : []),
    ...models
      .filter(({ migrations }) => migrations.length > 0)
      .map((model) => ({ parts: [model], schema: model.name, adopts: true })),
  ];
}

async function runPending(url: string, settings: Settings, target: Target): Promise<string[]> {
  // First: TypeORM looks for its record in the first schema of the path that exists when it connects.
  await createSchema(url, settings, target.schema);
  return withDataSource(url, settings, target, async (dataSource) => {
    refuseSchemasOfEntities(dataSource.entityMetadatas);
    if (target.adopts) await adoptTables(dataSource, target.schema);
    try {
      const run = await dataSource.runMigrations();
      return run.map((migration) => migration.name);
    } catch (error) {
      const reason = (error as Error).message;
      // If even the record of migrations could not be made, TypeORM keeps the only connection.
      const [failed] = await pendingOf(dataSource, target.schema).catch(() => []);
      if (!failed)
        throw new MigrationError(
          `the migrations could not begin (${reason}): fix the cause and start again`,
          { cause: error },
        );
      throw new MigrationError(
        isInTransaction(dataSource, failed)
          ? `migration ${failed} failed and was rolled back (${reason}); ` +
              'the migrations before it are applied, nothing else changed: fix the cause and start again'
          : `migration ${failed} failed (${reason}) and has no transaction, so a part of it may be applied; ` +
              'the migrations before it are applied: fix the cause and start again',
        { cause: error },
      );
    }
  });
}

/** Not IF NOT EXISTS: that needs the right to create schemas also where the schema exists. */
async function createSchema(url: string, settings: Settings, schema: string): Promise<void> {
  await queryServer(url, 'sluice migrate', settings.databaseConnectTimeout, async (client) => {
    const { rows } = await client.query(`SELECT to_regnamespace('${schema}') IS NOT NULL AS there`);
    if (!rows[0].there) await client.query(`CREATE SCHEMA ${schema}`);
  });
}

async function pendingOf(dataSource: DataSource, schema: string): Promise<string[]> {
  const record = `${schema}.migration`;
  const [table] = await dataSource.query('SELECT to_regclass($1) IS NOT NULL AS there', [record]);
  const done: { name: string }[] = table.there ? await dataSource.query(`SELECT name FROM ${record}`) : [];
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
  { parts, schema, maxIdle }: Target,
  work: (dataSource: DataSource) => Promise<Result>,
): Promise<Result> {
  const pooled = settings.databasePooler !== 'none';
  const options = dataSourceOptions(url, settings, parts);
  const server = firstServerOf(url);
  const searchPath = schema === 'public' ? schema : `${schema},public`;
  const limits = [
    `lock_timeout=${LOCK_TIMEOUT}`,
    ...(maxIdle ? [`idle_in_transaction_session_timeout=${maxIdle}`] : []),
  ];
  // An index is not created CONCURRENTLY in a round trip with another statement; the engine has such migrations.
  const setsPath = pooled && schema !== 'public';
  const Client = setsPath ? (clientWithSearchPath(searchPath) as unknown as typeof pg.Client) : pg.Client;
  const dataSource = new DataSource({
    ...options,
    extra: {
      connectionString: pooled ? server : withSearchPath(server, searchPath, ...limits),
      application_name: 'sluice migrate',
      max: 1,
      connectionTimeoutMillis: settings.databaseConnectTimeout,
      Client: clientOf(Client, Primary.of(url)),
      pipeline: setsPath,
    },
  } as typeof options);
  await dataSource.initialize();
  try {
    return await work(dataSource);
  } finally {
    await dataSource.destroy();
  }
}
