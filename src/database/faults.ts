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
 * A COMMIT that did not wait for the standby it should have waited for: committed on this server, and lost with it. As of one
 * whose connection broke, the outcome is unknown until a later commit has been replicated.
 */
export class NotReplicated extends Error {
  /** transaction_resolution_unknown */
  readonly code = TRANSACTION_RESOLUTION_UNKNOWN;

  constructor() {
    super('the wait for a synchronous standby was cancelled: the commit may not be replicated');
    this.name = 'NotReplicated';
  }
}

/** What node-postgres says when it has no code to give. */
const CONNECTION_MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|Client was closed|Cannot use a pool after)/;

/** The database cannot be used now; the same work may succeed later. Says nothing about a COMMIT that was cut. */
export function isDatabaseAway(error: unknown): boolean {
  return unwrapped(error).some(saysAway);
}

/** What statements of ours failed with. */
const ours = new WeakSet<object>();

export function markAsOurs(error: unknown): void {
  if (typeof error === 'object' && error !== null) ours.add(error);
}

/** The same of what an author's code threw: a call of its own to elsewhere fails with the same codes. */
export function isOurDatabaseAway(error: unknown): boolean {
  return unwrapped(error).some((one) => ours.has(one as object) && saysAway(one));
}

function saysAway(error: unknown): boolean {
  const code = codeOf(error);
  if (code && (CONNECTION_CODES.has(code) || code.startsWith('08'))) return true;
  return error instanceof Error && CONNECTION_MESSAGES.test(error.message);
}

/** Of a server that was the primary, or is not yet: another connection may lead to the one that is. */
export function isReadOnly(error: unknown): boolean {
  return unwrapped(error).some((one) => codeOf(one) === READ_ONLY);
}

/** The connection led nowhere, and nobody said so: the statement was given up. */
export function isSilent(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}

/**
 * The server says itself that it can do nothing now, for anybody. Of a connection that just broke it cannot be told
 * whether what was sent on it broke it.
 */
const REFUSING_EVERYBODY = new Set([
  '53100',
  '53300',
  READ_ONLY,
  '57P02',
  '57P03',
  TRANSACTION_RESOLUTION_UNKNOWN,
]);

/** Surely not the fault of whoever asked. */
export function isServerRefusing(error: unknown): boolean {
  return unwrapped(error).some((one) => REFUSING_EVERYBODY.has(codeOf(one) ?? ''));
}

/** Another transaction was in the way; the same work may succeed at once. */
export function isConflictOfTransactions(error: unknown): boolean {
  return unwrapped(error).some((one) => ['40001', '40P01', '55P03'].includes(codeOf(one) ?? ''));
}

/** A statement that says `1 / (condition)::integer` found it untrue. */
export function isAssertionFailure(error: unknown): boolean {
  return codeOf(error) === '22012';
}

/** The SQLSTATE, or node's error code, wherever TypeORM hid it. */
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
