import type { QueryResult } from 'pg';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { formatDuration } from '../config/duration.ts';
import { codeOf, markEngineError } from './errors.ts';
import type { PipelinedClient } from './pipelined-client.ts';
import { preparedName, refuseNaN } from './prepared.ts';

/** SQLSTATE of a statement in a transaction in which an earlier statement failed. */
const ABORTED = '25P02';

/** A name is never used twice, even if the first statement of that name failed. */
let lastStatementNumber = 0;

/** The work of a transaction exceeded its time limit. */
export class TransactionTimeout extends Error {
  constructor(ms: number) {
    super(`it took longer than ${formatDuration(ms)}`);
    this.name = 'TransactionTimeout';
  }
}

/**
 * An open transaction. Statements issued without awaiting each other are pipelined: they reach the server in the order
 * in which they were issued, in one round trip. If one of the statements issued in the same turn of the event loop
 * fails, the server does not run the ones after it.
 *
 * A statement that is used a second time within the transaction is parsed once for all further uses (measured: an upsert
 * per message cost the server 96 µs, and 36 µs this way) and deallocated when the transaction ends, unless it is one that
 * stays prepared (`prepared()`).
 */
export class Transaction {
  /** Number of statements the server has not completed yet. */
  private pendingStatements = 0;
  private failure: { readonly reason: unknown } | undefined;
  /** A statement that failed before it was sent. The server does not know of it and would commit the rest. */
  private notSent: { readonly reason: unknown } | undefined;
  private onStatementSettled: () => void = () => undefined;
  /** Statements used so far, each with its name from its second use on. */
  private readonly statementNames = new Map<string, string | undefined>();
  private entityManager: EntityManager | undefined;
  private ended = false;
  private committing: Promise<void> | undefined;

  constructor(
    private readonly client: PipelinedClient,
    private readonly dataSource: DataSource | undefined,
    /** Behind a pooler a later statement may run on another server connection, where the name is unknown. */
    private readonly namesAllowed: boolean,
  ) {}

  /** Must be issued first. */
  async begin(statements: readonly string[]): Promise<void> {
    await Promise.all(statements.map((text) => this.client.issue({ text })));
  }

  /** Runs one statement and returns its rows. */
  query<Row>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    return this.track(this.send(sql, parameters), ({ rows }) => rows as Row[]);
  }

  /** Runs one statement and returns the number of rows it changed. */
  execute(sql: string, parameters: readonly unknown[] = []): Promise<number> {
    return this.track(this.send(sql, parameters), ({ rowCount }) => rowCount ?? 0);
  }

  /** A TypeORM manager that works in this transaction. `manager.transaction()` makes a savepoint, never a COMMIT. */
  get manager(): EntityManager {
    this.entityManager ??= managerOn((sql, parameters) => {
      const sent = this.send(sql, parameters);
      sent.catch(markEngineError);
      return sent;
    }, this.dataSource);
    return this.entityManager;
  }

  /** Resolves when every statement issued so far has completed; rejects with the error of the first that failed. */
  async allSettled(): Promise<void> {
    while (this.pendingStatements > 0 && !this.failure) {
      await new Promise<void>((resolve) => {
        this.onStatementSettled = resolve;
      });
    }
    if (this.failure) throw this.failure.reason;
  }

  /**
   * Sends the last statements of the transaction and COMMIT in the same round trip; `issue` must issue all of them before
   * it returns. Only an error of one of these statements prevents the commit. So a condition that must hold has to be
   * checked inside a statement: the caller sees the results when the commit has already happened. Rejects with the error
   * of the statement that failed first, not with those of the statements (and COMMIT) that failed because of it.
   */
  async commitWith<Result>(issue: () => readonly Promise<Result>[]): Promise<Result[]> {
    const issued = issue();
    const [committed, ...results] = await Promise.allSettled([this.commit(), ...issued]);
    const failures = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    const cause = failures.find((reason) => codeOf(reason) !== ABORTED) ?? failures[0];
    if (cause !== undefined) throw cause;
    if (committed.status === 'rejected') throw committed.reason;
    return results.map((one) => (one as PromiseFulfilledResult<Awaited<Result>>).value);
  }

  /** Sends COMMIT once; a second call returns the same promise (`commitWith` has already sent it). */
  commit(): Promise<void> {
    this.committing ??= this.sendCommit();
    return this.committing;
  }

  /** COMMIT was sent. An earlier failure that was undone by a savepoint no longer matters. */
  get isCommitting(): boolean {
    return this.committing !== undefined;
  }

  private async sendCommit(): Promise<void> {
    this.end();
    if (this.notSent) throw this.notSent.reason;
    const sent = this.client.issue({ text: 'COMMIT' });
    this.deallocate();
    const { command } = await sent;
    // The server does not report an error for COMMIT in a failed transaction: it rolls back and returns ROLLBACK.
    if (command !== 'COMMIT') throw new Error('a statement of the transaction failed: nothing was committed');
  }

  /**
   * The result of `work`; rejects early when the connection breaks or the time limit is exceeded. Without this, work that
   * waits for something other than the database would not notice either.
   */
  withTimeout<T>(ms: number, work: Promise<T>): Promise<T> {
    const { client } = this;
    let onBroken: (error?: Error) => void;
    let timer: NodeJS.Timeout;
    const cut = new Promise<never>((_, reject) => {
      onBroken = (error = new Error('Connection terminated')) => reject(error);
      timer = setTimeout(() => reject(new TransactionTimeout(ms)), ms);
      client.once('error', onBroken).once('end', onBroken);
    });
    return Promise.race([work, cut]).finally(() => {
      clearTimeout(timer);
      client.off('error', onBroken).off('end', onBroken);
    });
  }

  /**
   * After this call no statement is sent. A branch of the work that is still running after another branch failed would
   * otherwise write outside of any transaction, or into the transaction of the connection's next user.
   */
  end(): void {
    this.ended = true;
  }

  private send(sql: string, parameters: readonly unknown[] | undefined): Promise<QueryResult> {
    if (this.ended) return Promise.reject(new Error('the transaction has ended'));
    const values = parameters as unknown[] | undefined;
    const name = this.nameOf(sql, values);
    const isPrepared = preparedName(sql) !== undefined;
    const isSimple = !isPrepared && (values === undefined || values.length === 0);
    try {
      if (isPrepared) refuseNaN(sql, values ?? []);
      return isSimple ? this.client.simpleQuery(sql) : this.client.issue({ name, text: sql, values });
    } catch (reason) {
      this.notSent ??= { reason };
      return Promise.reject(reason);
    }
  }

  /** The name to prepare the statement under: fixed for a `prepared()` one, for others from their second use on. */
  private nameOf(sql: string, values: readonly unknown[] | undefined): string | undefined {
    if (!this.namesAllowed) return undefined;
    const fixedName = preparedName(sql);
    if (fixedName || !values?.length) return fixedName;
    if (!this.statementNames.has(sql)) {
      this.statementNames.set(sql, undefined);
      return undefined;
    }
    const known = this.statementNames.get(sql);
    if (known) return known;
    lastStatementNumber += 1;
    const name = `sluice_${lastStatementNumber}`;
    this.statementNames.set(sql, name);
    return name;
  }

  /**
   * Deallocates the statements that were named for this transaction only. Must be issued again with ROLLBACK when the
   * transaction failed: the server skips a deallocation that was sent together with a COMMIT it skips.
   */
  deallocate(): void {
    for (const name of this.statementNames.values()) if (name !== undefined) this.client.deallocate(name);
  }

  /** The transaction waits for statements that its caller does not await, and is rolled back when one of them fails. */
  private track<T>(sent: Promise<QueryResult>, pick: (result: QueryResult) => T): Promise<T> {
    this.pendingStatements += 1;
    const result = sent.then(pick, (reason) => {
      markEngineError(reason);
      markEngineError(reason.cause);
      this.failure ??= { reason };
      // As node-postgres does: the stack of the caller, not of the socket.
      Error.captureStackTrace(reason);
      throw reason;
    });
    const settled = () => {
      this.pendingStatements -= 1;
      if (this.pendingStatements === 0 || this.failure) this.onStatementSettled();
    };
    // Runs after the caller's own continuation, so that a statement which the caller issues next is waited for, too.
    result.then(settled, settled);
    return result;
  }

  /** For the error "transaction is aborted": the error that aborted it, if it is known. */
  rootCause(error: unknown): unknown {
    return codeOf(error) === ABORTED ? (this.failure?.reason ?? error) : error;
  }
}

type Send = (sql: string, parameters: readonly unknown[] | undefined) => Promise<QueryResult>;

/** Binds a TypeORM query runner to a connection that is already inside a transaction. */
function managerOn(send: Send, dataSource: DataSource | undefined): EntityManager {
  if (!dataSource) throw new Error('this database was opened without entities');
  const runner = dataSource.createQueryRunner();
  Object.assign(runner as QueryRunner & Record<string, unknown>, {
    databaseConnection: { query: send },
    isTransactionActive: true,
    transactionDepth: 1,
  });
  return runner.manager;
}
