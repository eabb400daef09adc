const READ_ONLY = '25006';
const TRANSACTION_RESOLUTION_UNKNOWN = '08007';

const CONNECTION_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ETIMEDOUT',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  '57P01', // terminated by an administrator
  '57P02', // crash of another backend
  '57P03', // starting up or shutting down
  '57P05', // idle session timeout
  '53300', // too many connections
  '53100', // disk full
  '53200', // out of memory
  READ_ONLY, // a standby after a failover
  '25P03', // idle in transaction for too long: the session is gone
]);

/**
 * A COMMIT whose wait for a synchronous standby was cancelled: it is committed on this server and lost if this server is
 * lost. As with a COMMIT whose connection broke, the outcome is unknown until a later commit has been replicated.
 */
export class NotReplicated extends Error {
  /** transaction_resolution_unknown */
  readonly code = TRANSACTION_RESOLUTION_UNKNOWN;

  constructor() {
    super('the wait for a synchronous standby was cancelled: the commit may not be replicated');
    this.name = 'NotReplicated';
  }
}

/** Messages of node-postgres for errors that have no code. */
const CONNECTION_MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|Client was closed|Cannot use a pool after)/;

/**
 * The database cannot be used now; the same work may succeed later. If the statement was a COMMIT, it may or may not have
 * happened.
 */
export function isDatabaseAway(error: unknown): boolean {
  return unwrapped(error).some(meansAway);
}

/** Errors of statements that ran on the engine's connections. */
const engineErrors = new WeakSet<object>();

export function markEngineError(error: unknown): void {
  if (typeof error === 'object' && error !== null) engineErrors.add(error);
}

/**
 * Like `isDatabaseAway`, for errors thrown by a denormalizer: its author's own calls to other systems can fail with the
 * same codes, and must not be taken for an outage of this database.
 */
export function isEngineDatabaseAway(error: unknown): boolean {
  return unwrapped(error).some((one) => engineErrors.has(one as object) && meansAway(one));
}

function meansAway(error: unknown): boolean {
  const code = codeOf(error);
  if (code && (CONNECTION_CODES.has(code) || code.startsWith('08'))) return true;
  return error instanceof Error && CONNECTION_MESSAGES.test(error.message);
}

/** The server is a standby, or not promoted yet: a new connection may be to the primary. */
export function isReadOnly(error: unknown): boolean {
  return unwrapped(error).some((one) => codeOf(one) === READ_ONLY);
}

/** As a server in recovery refuses a write. */
export function readOnlyError(message: string): Error {
  return Object.assign(new Error(message), { code: READ_ONLY });
}

/** A standby lacks a table, column, function or schema until it has replayed the migration, and it cannot do everything. */
const NOT_ON_STANDBY = new Set(['42P01', '42703', '42883', '3F000', '0A000', '57P04']);

/** What failed on a standby may work on the primary: the connection was lost, a replayed change won, or it is not there yet. */
export function mayWorkOnPrimary(error: unknown): boolean {
  if (isDatabaseAway(error) || isConflictOfTransactions(error)) return true;
  return unwrapped(error).some((one) => NOT_ON_STANDBY.has(codeOf(one) ?? ''));
}

/** The server did not reply at all within `query_timeout`; the connection is probably dead. */
export function isReadTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}

/**
 * Codes by which the server itself reports that it cannot work for any client. A broken connection is not among them: the
 * statement sent on it may be what broke it.
 */
const SERVER_WIDE_CODES = new Set([
  '53100',
  '53300',
  READ_ONLY,
  '57P02',
  '57P03',
  TRANSACTION_RESOLUTION_UNKNOWN,
]);

/** The server cannot work for any client; the statement is certainly not the cause. */
export function isServerRefusing(error: unknown): boolean {
  return unwrapped(error).some((one) => SERVER_WIDE_CODES.has(codeOf(one) ?? ''));
}

/** A conflict with another transaction (serialisation failure, deadlock, lock timeout); an immediate retry may succeed. */
export function isConflictOfTransactions(error: unknown): boolean {
  return unwrapped(error).some((one) => ['40001', '40P01', '55P03'].includes(codeOf(one) ?? ''));
}

/** Division by zero: a statement asserts a condition by `1 / (condition)::integer`, and the condition was false. */
export function isAssertionFailure(error: unknown): boolean {
  return codeOf(error) === '22012';
}

/** The SQLSTATE, or the error code of Node. */
export function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

function unwrapped(error: unknown): unknown[] {
  const { driverError, errors, cause } = (error ?? {}) as {
    driverError?: unknown;
    errors?: unknown[];
    cause?: unknown;
  };
  return [error, driverError, cause, ...(Array.isArray(errors) ? errors : [])].filter(Boolean);
}
