import pg from 'pg';
import type { Settings } from '../config/settings.ts';
import { PipelinedClient } from './pipelined-client.ts';

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
 * - Behind a pooler in transaction mode, session settings would leak to other clients (and PgBouncer rejects them when
 *   connecting), so they are set per transaction there: see `beginStatements`.
 */
export function connectionOptions(url: string, settings: ConnectionSettings, name: string): pg.PoolConfig {
  const session =
    settings.databasePooler === 'transaction'
      ? {}
      : {
          statement_timeout: settings.databaseStatementTimeout,
          idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
          lock_timeout: LOCK_TIMEOUT_MS,
        };
  return {
    connectionString: url,
    application_name: name,
    max: settings.databasePoolSize,
    connectionTimeoutMillis: settings.databaseConnectTimeout,
    idleTimeoutMillis: 60_000,
    query_timeout: settings.databaseStatementTimeout + 5_000,
    keepAlive: true,
    pipeline: true,
    types: { getTypeParser },
    Client: PipelinedClient as unknown as typeof pg.Client,
    ...session,
  } satisfies pg.PoolConfig & { pipeline: boolean; Client: typeof pg.Client };
}

/**
 * A replica that freezes inside a transaction keeps its row locks, and other replicas skip its lanes silently until the
 * server ends the session. So this must stay far below any lease.
 */
const IDLE_IN_TRANSACTION_MS = 5_000;
const LOCK_TIMEOUT_MS = 10_000;

/** The statements that open a transaction. */
export function beginStatements({ databasePooler, databaseStatementTimeout }: ConnectionSettings): string[] {
  if (databasePooler === 'none') return ['BEGIN'];
  const limits = {
    statement_timeout: databaseStatementTimeout,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
  };
  return ['BEGIN', ...Object.entries(limits).map(([name, ms]) => `SET LOCAL ${name} = ${ms}`)];
}

const INT8 = 20;

/** bigint columns are positions and counts, far below 2^53, so they are read as numbers, not as strings. */
function getTypeParser(oid: number, format: 'text' | 'binary' = 'text'): (value: never) => unknown {
  return oid === INT8 && format === 'text' ? Number : pg.types.getTypeParser(oid, format as 'text');
}
