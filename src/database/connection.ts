import pg from 'pg';
import { serversOf } from '../config/database-url-variable.ts';
import type { Settings } from '../config/settings.ts';
import { searchPathOf, withSearchPath } from './model-schemas.ts';
import { PipelinedClient } from './pipelined-client.ts';
import { Primary } from './primary.ts';
import { clientOf } from './primary-client.ts';
import { clientWithSearchPath } from './search-path-client.ts';

/** The oldest PostgreSQL version this service supports. */
export const MIN_SERVER_MAJOR = 14;

type ConnectionSettings = Pick<
  Settings,
  'databaseStatementTimeout' | 'databaseConnectTimeout' | 'databasePooler' | 'databasePoolSize'
>;

/**
 * The options of every connection, of the engine's pool and of TypeORM's.
 *
 * - `pipeline`: statements issued without awaiting each other share one round trip.
 * - `query_timeout`: without it node-postgres waits for ever on a black-holed connection, where the server's own
 *   `statement_timeout` has no effect. It is the longer of the two, so that the server's clearer error comes first.
 * - `search_path`: the tables of read models are in schemas of their own.
 * - Behind a pooler in transaction mode, session settings would leak to other clients (and PgBouncer rejects them when
 *   connecting), so they are set per transaction there: see `beginStatements`.
 */
export function connectionOptions(
  url: string,
  settings: ConnectionSettings,
  name: string,
  schemas: readonly string[] = [],
): pg.PoolConfig {
  const server = firstServerOf(url);
  const searchPath = searchPathOf(schemas);
  const pooled = settings.databasePooler === 'transaction';
  const session = pooled
    ? {}
    : {
        statement_timeout: settings.databaseStatementTimeout,
        idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
        lock_timeout: LOCK_TIMEOUT_MS,
      };
  const Client = pooled && schemas.length > 0 ? clientWithSearchPath(searchPath) : PipelinedClient;
  return {
    connectionString: pooled || schemas.length === 0 ? server : withSearchPath(server, searchPath),
    application_name: name,
    max: settings.databasePoolSize,
    connectionTimeoutMillis: settings.databaseConnectTimeout,
    idleTimeoutMillis: 60_000,
    query_timeout: settings.databaseStatementTimeout + 5_000,
    keepAlive: true,
    pipeline: true,
    types: { getTypeParser },
    Client: clientOf(Client as unknown as typeof pg.Client, Primary.of(url)),
    ...session,
  } satisfies pg.PoolConfig & { pipeline: boolean; Client: typeof pg.Client };
}

/** With several hosts, node-postgres gets the URL of the first one, and `clientOf` leads it to the primary. */
export function firstServerOf(url: string): string {
  return serversOf(url)?.[0]?.url ?? url;
}

/**
 * A replica that freezes inside a transaction keeps its row locks, and other replicas skip its lanes silently until the
 * server ends the session. So this must stay far below any lease.
 */
const IDLE_IN_TRANSACTION_MS = 5_000;
const LOCK_TIMEOUT_MS = 10_000;

/** The statements that open a transaction. */
export function beginStatements(
  { databasePooler, databaseStatementTimeout }: ConnectionSettings,
  schemas: readonly string[] = [],
): string[] {
  if (databasePooler === 'none') return ['BEGIN'];
  const path = schemas.length === 0 ? [] : [`SET LOCAL search_path = ${searchPathOf(schemas)}`];
  const limits = {
    statement_timeout: databaseStatementTimeout,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
  };
  return ['BEGIN', ...path, ...Object.entries(limits).map(([name, ms]) => `SET LOCAL ${name} = ${ms}`)];
}

const INT8 = 20;

/** bigint columns are positions and counts, far below 2^53, so they are read as numbers, not as strings. */
function getTypeParser(oid: number, format: 'text' | 'binary' = 'text'): (value: never) => unknown {
  return oid === INT8 && format === 'text' ? Number : pg.types.getTypeParser(oid, format as 'text');
}
