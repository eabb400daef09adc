import type { Socket } from 'node:net';
import pg, { type QueryResult } from 'pg';
// @ts-expect-error: without types
import utils from 'pg/lib/utils.js';
import { NotReplicated } from './faults.ts';

const { prepareValue } = utils as { prepareValue: (value: unknown) => unknown };

/** One statement; with a name it stays prepared on the connection until it is forgotten. */
interface Statement {
  readonly name?: string | undefined;
  readonly text: string;
  readonly values?: unknown[] | undefined;
}

/** Most statements that share a Sync: their answers come together, and whoever goes on with one should not wait for all. */
const MAX_TOGETHER = 128;

/**
 * A connection on which statements that are issued in one turn are written together and share a Sync.
 *
 * node-postgres ends every statement with a Sync of its own, and the server answers each Sync with a packet of its own.
 * Measured with an upsert per message in batches of 512: PostgreSQL 22 µs per statement and 13 with shared ones, Node 15
 * and 6. So here a statement is over when the server says that it is complete, and a Sync has a place of its own in the
 * queue of what is to be answered. What comes after a failure the server skips, up to the next Sync, without a word: it
 * fails here as it would have failed there, a turn later, so that whoever waits for both hears of the failure first.
 *
 * This leans on what node-postgres keeps to itself; its version is pinned, and `pipelined-client.spec.ts` is for the next one.
 */
export class PipelinedClient extends (pg.Client as unknown as new (
  config?: string | pg.ClientConfig,
) => pg.Client & Internals) {
  /** Issued since the last Sync. */
  private unsynced = 0;
  private gathering = false;

  /**
   * A pool listens to a connection only while it is idle. One that breaks in our hands, or says why after it was given
   * up, would end the process; the statement in flight, or the next one, fails with the same news.
   */
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.on('error', () => undefined);
  }

  /** Sends a statement with its neighbours. Throws, not rejects, where a value cannot be written: nothing of it was sent. */
  issue({ name, text, values = [] }: Statement): Promise<QueryResult> {
    // Here, where it can still be refused without a trace; node-postgres would have sent half of it.
    const written = values.map((value) => prepareValue(value));
    this.cork();
    return new Promise<QueryResult>((resolve, reject) => {
      const statement = new Unsynced(text, written);
      statement.name = name;
      statement.callback = (error, result) => (error ? reject(error) : resolve(result!));
      this.query(statement as unknown as pg.Query);
      this.unsynced += 1;
      if (this.unsynced >= MAX_TOGETHER) this.sync();
    });
  }

  /** Sends text without values, of any number of statements: the server takes it as one, and answers with a Sync of its own. */
  simpleQuery(text: string): Promise<QueryResult> {
    this.cork();
    this.sync();
    return new Promise<QueryResult>((resolve, reject) => {
      this.query(text, (error, result) => (error ? reject(error) : resolve(result)));
    });
  }

  /** The server forgets a statement; nothing happens where it has never heard of it. */
  deallocate(name: string): void {
    this.cork();
    this.connection.close({ type: 'S', name });
    delete this.connection.parsedStatements[name];
    delete this.connection.submittedNamedStatements[name];
    this.unsynced += 1;
  }

  /** What is issued in one turn is written together: a call to the system for each would cost more than the rest of it. */
  private cork(): void {
    if (this.gathering) return;
    this.gathering = true;
    const { stream } = this.connection;
    stream.cork();
    process.nextTick(() => {
      this.gathering = false;
      this.sync();
      stream.uncork();
    });
  }

  private sync(): void {
    if (this.unsynced === 0) return;
    this.unsynced = 0;
    this._queryQueue.push(new Sync());
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

  /** Nothing more comes for a statement without a Sync of its own. */
  private finishUnsynced(): void {
    if (this._getActiveQuery() instanceof Unsynced) this._handleReadyForQuery({ status: 'T' });
  }

  /**
   * A COMMIT whose wait for a synchronous standby was cancelled is reported with a warning, and then as done: committed here,
   * and lost if this server is. Known by the server's routine, which no locale translates.
   */
  override _handleNotice(message: { readonly routine?: string }): void {
    super._handleNotice(message);
    const active = this._getActiveQuery();
    if (active && message.routine === 'SyncRepWaitForLSN') active._canceledDueToError = new NotReplicated();
  }

  override _handleErrorMessage(message: unknown): void {
    const skips = this._getActiveQuery() instanceof Unsynced;
    super._handleErrorMessage(message);
    if (skips) this.skipToSync(message);
  }

  private skipToSync(cause: unknown): void {
    const sent = this._sentQueryQueue;
    const synced = sent.findIndex((one) => !(one instanceof Unsynced));
    const skipped = sent.splice(0, synced < 0 ? sent.length : synced);
    for (const { name } of skipped) if (name) delete this.connection.submittedNamedStatements[name];
    setImmediate(() => {
      for (const statement of skipped) statement.handleError(new Skipped(cause));
    });
    // That Sync is what is answered next.
    this.readyForQuery = true;
    this._pulseQueryQueue();
  }
}

/** As the server says it of what comes after a failure; `cause` is that failure. */
class Skipped extends Error {
  readonly code = '25P02';

  constructor(cause: unknown) {
    super('current transaction is aborted, commands ignored until end of transaction block', { cause });
  }
}

const Query = pg.Query as unknown as new (text: string, values?: unknown[]) => Queued;

class Unsynced extends Query {
  /** The other way to ask for something has no Sync to share. */
  override requiresPreparation(): boolean {
    return true;
  }

  override _getRows(connection: Connection): void {
    connection.execute({ portal: this.portal });
  }
}

/** Answered when the server is through with all before it. */
class Sync extends Query {
  constructor() {
    super('');
  }

  override submit(connection: Connection): unknown {
    connection.sync();
    return null;
  }

  /** The connection broke: those who wait for an answer hear of it. */
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

interface Queued {
  name: string | undefined;
  readonly portal: string;
  callback: (error: Error | null, result?: QueryResult) => void;
  /** What it fails with when the server is through with it. */
  _canceledDueToError: Error | false;
  requiresPreparation(): boolean;
  submit(connection: Connection): unknown;
  handleError(error: Error): void;
  _getRows(connection: Connection): void;
}

interface Internals {
  readonly connection: Connection;
  readonly _queryQueue: Queued[];
  readonly _sentQueryQueue: Queued[];
  readyForQuery: boolean;
  _pulseQueryQueue(): void;
  _getActiveQuery(): Queued | undefined;
  _handleCommandComplete(message: unknown): void;
  _handleEmptyQuery(message: unknown): void;
  _handleErrorMessage(message: unknown): void;
  _handleNotice(message: object): void;
  _handleReadyForQuery(message: { status: string }): void;
}
