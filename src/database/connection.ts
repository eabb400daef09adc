import pg from 'pg';
import type { Settings } from '../config/settings.ts';
import { PipelinedClient } from './pipelined-client.ts';

/** The oldest server this service is tried with. */
export const OLDEST_SERVER_MAJOR = 14;

type ConnectionSettings = Pick<
  Settings,
  'databaseStatementTimeout' | 'databaseConnectTimeout' | 'databasePooler' | 'databasePoolSize'
>;

/**
 * What every connection gets, the engine's pool and TypeORM's alike.
 *
 * - `pipeline`: statements issued without awaiting each other share one round trip.
 * - `query_timeout`: node-postgres waits for ever on a connection that was black-holed; the server's own
 *   `statement_timeout` cannot help there. It is longer, so that the server's clearer error comes first.
 * - Behind a pooler in transaction mode session settings would leak to other clients (and PgBouncer refuses
 *   them at start-up), so there they are set per transaction: see `beginStatements`.
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
 * A holder that freezes inside a transaction keeps its row locks, and others skip its lanes silently until
 * the server ends the session: this must stay far below any lease.
 */
const IDLE_IN_TRANSACTION_MS = 5_000;
const LOCK_TIMEOUT_MS = 10_000;

/** To be issued first in a transaction. */
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

/** bigint columns are positions and counts, far below 2^53: numbers, not strings. */
function getTypeParser(oid: number, format: 'text' | 'binary' = 'text'): (value: never) => unknown {
  return oid === INT8 && format === 'text' ? Number : pg.types.getTypeParser(oid, format as 'text');
}
