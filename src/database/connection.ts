import pg from 'pg';
import type { Settings } from '../config/settings.ts';

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
 *   them at start-up), so there they are set per transaction: see `beginStatement`.
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
    Client: HardyClient,
    ...session,
  } satisfies pg.PoolConfig & { pipeline: boolean; Client: typeof pg.Client };
}

/**
 * A pool listens to a connection only while it is idle. One that breaks in our hands, or says why after it was given
 * up, would end the process; the statement in flight, or the next one, fails with the same news.
 */
class HardyClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.on('error', () => undefined);
  }
}

/**
 * A holder that freezes inside a transaction keeps its row locks, and others skip its lanes silently until
 * the server ends the session: this must stay far below any lease.
 */
const IDLE_IN_TRANSACTION_MS = 5_000;
const LOCK_TIMEOUT_MS = 10_000;

export function beginStatement(settings: ConnectionSettings): string {
  if (settings.databasePooler === 'none') return 'BEGIN';
  return [
    'BEGIN',
    `SET LOCAL statement_timeout = ${settings.databaseStatementTimeout}`,
    `SET LOCAL idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS}`,
    `SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`,
  ].join('; ');
}

const INT8 = 20;

/** bigint columns are positions and counts, far below 2^53: numbers, not strings. */
function getTypeParser(oid: number, format: 'text' | 'binary' = 'text'): (value: never) => unknown {
  return oid === INT8 && format === 'text' ? Number : pg.types.getTypeParser(oid, format as 'text');
}
