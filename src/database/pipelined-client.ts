import type { Socket } from 'node:net';
import pg, { type QueryResult } from 'pg';
// @ts-expect-error: without types
import utils from 'pg/lib/utils.js';
import { NotReplicated } from './errors.ts';

const { prepareValue } = utils as { prepareValue: (value: unknown) => unknown };

/** One statement. If it has a name, it stays prepared on the connection until it is deallocated. */
interface Statement {
  readonly name?: string | undefined;
  readonly text: string;
  readonly values?: unknown[] | undefined;
}

/** Results of statements that share a Sync arrive together, and a caller should not have to wait for too many others. */
const MAX_STATEMENTS_PER_SYNC = 128;

/**
 * A connection that writes all statements issued in one turn of the event loop together, with one shared Sync.
 *
 * node-postgres ends every statement with its own Sync, and the server replies to each Sync with its own packet. Measured
 * with an upsert per message in batches of 512: PostgreSQL needs 22 µs per statement, and 13 µs with a shared Sync; Node
 * needs 15 µs, and 6 µs. So here a statement ends with its CommandComplete, and a Sync is an entry of its own in the queue
 * of expected replies. After a failure the server silently skips everything up to the next Sync. The skipped statements
 * are rejected here with the code the server would have used (25P02), one turn of the event loop later, so that a caller
 * who awaits several statements sees the original error first.
 *
 * This class depends on internals of node-postgres. Its version is pinned, and `pipelined-client.spec.ts` must pass before
 * it is upgraded. ADR 0014 has the reasons and the measurements.
 */
export class PipelinedClient extends (pg.Client as unknown as new (
  config?: string | pg.ClientConfig,
) => pg.Client & Internals) {
  /** Number of statements issued since the last Sync. */
  private sinceSync = 0;
  private corked = false;

  /**
   * A pool handles 'error' events of a connection only while the connection is idle. Without this handler, a connection
   * that breaks while it is checked out, or reports an error after it was discarded, would end the process. The error is
   * not lost: the statement in flight, or the next one, fails with it.
   */
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.on('error', () => undefined);
  }

  /**
   * Sends a statement together with the others of this turn. Throws synchronously if a value cannot be serialised: then
   * nothing of the statement was sent.
   */
  issue({ name, text, values = [] }: Statement): Promise<QueryResult> {
    // Serialised here, before anything is sent: node-postgres would fail after it has sent half of the statement.
    const serialised = values.map((value) => prepareValue(value));
    this.cork();
    return new Promise<QueryResult>((resolve, reject) => {
      const statement = new UnsyncedQuery(text, serialised);
      statement.name = name;
      statement.callback = (error, result) => (error ? reject(error) : resolve(result!));
      this.query(statement as unknown as pg.Query);
      this.sinceSync += 1;
      if (this.sinceSync >= MAX_STATEMENTS_PER_SYNC) this.sync();
    });
  }

  /** Sends SQL text without values, with any number of statements in it (the simple query protocol, which has no Sync). */
  simpleQuery(text: string): Promise<QueryResult> {
    this.cork();
    this.sync();
    return new Promise<QueryResult>((resolve, reject) => {
      this.query(text, (error, result) => (error ? reject(error) : resolve(result)));
    });
  }

  /** Deallocates a prepared statement on the server; has no effect if the server does not know the name. */
  deallocate(name: string): void {
    this.cork();
    this.connection.close({ type: 'S', name });
    delete this.connection.parsedStatements[name];
    delete this.connection.submittedNamedStatements[name];
    this.sinceSync += 1;
  }

  /** Statements issued in one turn are written together: one system call for each would cost more than all the rest. */
  private cork(): void {
    if (this.corked) return;
    this.corked = true;
    const { stream } = this.connection;
    stream.cork();
    process.nextTick(() => {
      this.corked = false;
      this.sync();
      stream.uncork();
    });
  }

  private sync(): void {
    if (this.sinceSync === 0) return;
    this.sinceSync = 0;
    this._queryQueue.push(new SyncQuery());
    this._pulseQueryQueue();
  }

  override _handleCommandComplete(message: unknown): void {
    super._handleCommandComplete(message);
    this.finishUnsynced();
  }

  override _handleEmptyQuery(message: unknown): void {
    super._handleEmptyQuery(message);
    this.finishUnsynced();
  }

  /** For a statement that shares a Sync no ReadyForQuery follows, so it is marked as complete here. */
  private finishUnsynced(): void {
    if (this._getActiveQuery() instanceof UnsyncedQuery) this._handleReadyForQuery({ status: 'T' });
  }

  /**
   * For a COMMIT whose wait for a synchronous standby was cancelled, the server sends a warning and then reports success:
   * the transaction is committed on this server, and lost if this server is lost. The warning is recognised by the name of
   * the server's C function, which is not translated.
   */
  override _handleNotice(message: { readonly routine?: string }): void {
    super._handleNotice(message);
    const active = this._getActiveQuery();
    if (active && message.routine === 'SyncRepWaitForLSN') active._canceledDueToError = new NotReplicated();
  }

  override _handleErrorMessage(message: unknown): void {
    const sharesSync = this._getActiveQuery() instanceof UnsyncedQuery;
    super._handleErrorMessage(message);
    if (sharesSync) this.skipToSync(message);
  }

  private skipToSync(cause: unknown): void {
    const sent = this._sentQueryQueue;
    const synced = sent.findIndex((one) => !(one instanceof UnsyncedQuery));
    const skipped = sent.splice(0, synced < 0 ? sent.length : synced);
    for (const { name } of skipped) if (name) delete this.connection.submittedNamedStatements[name];
    setImmediate(() => {
      for (const statement of skipped) statement.handleError(new Skipped(cause));
    });
    // The next reply of the server belongs to that Sync.
    this.readyForQuery = true;
    this._pulseQueryQueue();
  }
}

/** Code and message are what the server reports for a statement after a failure; `cause` is that failure. */
class Skipped extends Error {
  readonly code = '25P02';

  constructor(cause: unknown) {
    super('current transaction is aborted, commands ignored until end of transaction block', { cause });
  }
}

const Query = pg.Query as unknown as new (text: string, values?: unknown[]) => QueuedQuery;

/** A statement without a Sync of its own. */
class UnsyncedQuery extends Query {
  /** Forces the extended query protocol: the simple one cannot share a Sync. */
  override requiresPreparation(): boolean {
    return true;
  }

  override _getRows(connection: Connection): void {
    connection.execute({ portal: this.portal });
  }
}

/** A Sync as an entry in the queue; the server replies to it after everything that was sent before it. */
class SyncQuery extends Query {
  constructor() {
    super('');
  }

  override submit(connection: Connection): unknown {
    connection.sync();
    return null;
  }

  /** The connection broke. The pending statements are rejected; nothing waits for the Sync itself. */
  override handleError(): void {}
}

interface Connection {
  readonly stream: Socket;
  readonly parsedStatements: Record<string, string>;
  readonly submittedNamedStatements: Record<string, string>;
  sync(): void;
  close(what: { type: 'S'; name: string }): void;
  execute(what: { portal: string }): void;
}

interface QueuedQuery {
  name: string | undefined;
  readonly portal: string;
  callback: (error: Error | null, result?: QueryResult) => void;
  /** If set, the query is rejected with this error once the server has completed it. */
  _canceledDueToError: Error | false;
  requiresPreparation(): boolean;
  submit(connection: Connection): unknown;
  handleError(error: Error): void;
  _getRows(connection: Connection): void;
}

interface Internals {
  readonly connection: Connection;
  readonly _queryQueue: QueuedQuery[];
  readonly _sentQueryQueue: QueuedQuery[];
  readyForQuery: boolean;
  _pulseQueryQueue(): void;
  _getActiveQuery(): QueuedQuery | undefined;
  _handleCommandComplete(message: unknown): void;
  _handleEmptyQuery(message: unknown): void;
  _handleErrorMessage(message: unknown): void;
  _handleNotice(message: object): void;
  _handleReadyForQuery(message: { status: string }): void;
}
