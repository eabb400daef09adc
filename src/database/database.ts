import type { PoolClient, QueryResult } from 'pg';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import type { Settings } from '../config/settings.ts';
import { beginStatements, connectionOptions } from './connection.ts';
import { DrainingPool } from './draining-pool.ts';
import { codeOf, isReadOnly } from './errors.ts';
import type { PipelinedClient } from './pipelined-client.ts';
import { preparedName, refuseNaN } from './prepared.ts';
import { Primary } from './primary.ts';
import { clientOf } from './primary-client.ts';
import { Transaction } from './transaction.ts';

/**
 * The engine's access to PostgreSQL: plain SQL on a pool of its own, so that many readers on TypeORM's pool cannot keep
 * messages from being accepted or processed.
 *
 * A statement stays prepared on its connection only if it was passed to `prepared()`. Every other statement is planned
 * for its actual parameters, or at least for the table as it is in this transaction. A statement that stays prepared
 * would keep the plan it got while the table was empty, and does not work behind PgBouncer in transaction mode.
 */
export class Database {
  readonly pool: DrainingPool;
  /** Only of a URL with several hosts. */
  readonly primary: Primary | undefined;
  private readonly beginSql: readonly string[];
  private readonly namesAllowed: boolean;

  constructor(
    url: string,
    settings: Settings,
    /** Only the metadata of the DataSource is used, for `Transaction.manager`; never its pool. */
    private readonly dataSource: DataSource | undefined,
    onIdleError: (error: Error) => void,
    /** The schemas of the read models. */
    schemas: readonly string[] = [],
  ) {
    this.primary = Primary.of(url);
    this.namesAllowed = settings.databasePooler === 'none';
    // Behind a pooler only transactions see them, through `beginStatements`: nothing else here reads a read model.
    const ofSession = this.namesAllowed ? schemas : [];
    this.pool = new DrainingPool(connectionOptions(url, settings, 'sluice engine', ofSession));
    this.pool.on('error', onIdleError);
    this.beginSql = beginStatements(settings, schemas);
  }

  /** Runs one statement and returns its rows. */
  async query<Row>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    const result = await this.send(sql, parameters);
    return result.rows as Row[];
  }

  /** Runs one statement and returns the number of rows it changed. */
  async execute(sql: string, parameters: readonly unknown[] = []): Promise<number> {
    const result = await this.send(sql, parameters);
    return result.rowCount ?? 0;
  }

  /**
   * Runs `work` in one READ COMMITTED transaction. BEGIN is sent together with the first statement. On any error the
   * transaction is rolled back, and the connection goes back to the pool only if the server confirmed the rollback.
   */
  async transaction<Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result> {
    const client = await this.connect();
    const tx = new Transaction(client, this.dataSource, this.namesAllowed);
    try {
      const began = tx.begin(this.beginSql);
      const [result] = await Promise.all([work(tx), began]);
      if (!tx.isCommitting) await tx.allSettled();
      await tx.commit();
      client.release();
      return result;
    } catch (caught) {
      const error = tx.rootCause(caught);
      tx.end();
      await rollBack(client, tx, error);
      this.dropIdleIfReadOnly(error);
      throw error;
    }
  }

  /**
   * Runs statements that are all known beforehand as one transaction in one round trip, COMMIT included. Returns the rows
   * of each statement, once the transaction is committed. On an error nothing was committed, unless the connection broke
   * or the wait for a standby was cancelled: then the outcome is unknown.
   */
  async inOneRoundTrip(statements: readonly Statement[]): Promise<unknown[][]> {
    const client = await this.connect();
    const tx = new Transaction(client, undefined, this.namesAllowed);
    try {
      const began = tx.begin(this.beginSql);
      const issue = () => statements.map(([sql, parameters = []]) => tx.query<unknown>(sql, parameters));
      const [rows] = await Promise.all([tx.commitWith(issue), began]);
      client.release();
      return rows;
    } catch (error) {
      tx.end();
      await rollBack(client, tx, error);
      this.dropIdleIfReadOnly(error);
      throw error;
    }
  }

  private connect(): Promise<CheckedOutClient> {
    return this.pool.connect() as Promise<unknown> as Promise<CheckedOutClient>;
  }

  /** A connection outside the pool, for long-lived use such as LISTEN. */
  standaloneClient(name: string): pg.Client {
    const Client = clientOf(pg.Client, this.primary);
    return new Client({
      ...this.pool.options,
      application_name: name,
      query_timeout: 0,
      statement_timeout: 0,
    });
  }

  /** Resolves when every connection of the pool is closed. */
  async close(): Promise<void> {
    await this.pool.end();
  }

  /** The pool itself discards a connection on which a statement failed because the connection broke. */
  private async send(sql: string, parameters: readonly unknown[]): Promise<QueryResult> {
    const values = parameters as unknown[];
    const name = this.namesAllowed ? preparedName(sql) : undefined;
    refuseNaN(sql, values);
    try {
      return await (name ? this.pool.query({ name, text: sql, values }) : this.pool.query(sql, values));
    } catch (error) {
      this.dropIdleIfReadOnly(error);
      throw error;
    }
  }

  /** If the server of one connection is no longer the primary, the idle connections are to the same server. */
  private dropIdleIfReadOnly(error: unknown): void {
    if (!isReadOnly(error)) return;
    this.primary?.doubt();
    this.pool.dropIdle().catch(() => undefined);
  }
}

type CheckedOutClient = PipelinedClient & Pick<PoolClient, 'release'>;

export type Statement = readonly [sql: string, parameters?: readonly unknown[]];

/**
 * A column has changed its type, or another client has deallocated a prepared statement. The statement works again on a
 * new connection.
 */
const STALE_STATEMENT = new Set(['0A000', '26000']);

async function rollBack(client: CheckedOutClient, tx: Transaction, error: unknown): Promise<void> {
  try {
    const rolledBack = client.simpleQuery('ROLLBACK');
    tx.deallocate();
    await rolledBack;
    client.release(STALE_STATEMENT.has(codeOf(error) ?? '') || isReadOnly(error));
  } catch {
    client.release(true);
  }
}
