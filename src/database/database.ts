import type { PoolClient, QueryResult } from 'pg';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import type { Settings } from '../config/settings.ts';
import { beginStatements, connectionOptions } from './connection.ts';
import { DrainingPool } from './draining-pool.ts';
import { codeOf, isReadOnly } from './faults.ts';
import type { PipelinedClient } from './pipelined-client.ts';
import { preparedName, refuseNaN } from './prepared.ts';
import { Transaction } from './transaction.ts';

/**
 * The engine's way to PostgreSQL: rows in, rows out, one pool of its own, so that a flood of readers on
 * TypeORM's pool cannot keep messages from being accepted or processed.
 *
 * No statement stays prepared unless it is `kept`: each is planned for its actual parameters, or at least for the table
 * as it is in this transaction. One that stays keeps the plan it got on an empty table, and does not survive PgBouncer.
 */
export class Database {
  readonly pool: DrainingPool;
  private readonly begin: readonly string[];
  private readonly mayName: boolean;

  constructor(
    url: string,
    settings: Settings,
    /** Only its metadata is used, for `Transaction.manager`; never its pool. */
    private readonly dataSource: DataSource | undefined,
    onIdleError: (error: Error) => void,
  ) {
    this.pool = new DrainingPool(connectionOptions(url, settings, 'sluice engine'));
    this.pool.on('error', onIdleError);
    this.begin = beginStatements(settings);
    this.mayName = settings.databasePooler === 'none';
  }

  /** One statement, its rows. */
  async query<Row>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    const result = await this.send(sql, parameters);
    return result.rows as Row[];
  }

  /** One statement, how many rows it changed. */
  async execute(sql: string, parameters: readonly unknown[] = []): Promise<number> {
    const result = await this.send(sql, parameters);
    return result.rowCount ?? 0;
  }

  /**
   * Runs `work` in one READ COMMITTED transaction. BEGIN travels with the first statement. Whatever goes wrong,
   * the transaction is rolled back, and the connection goes back to the pool only if the server said so.
   */
  async transaction<Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result> {
    const client = await this.connect();
    const tx = new Transaction(client, this.dataSource, this.mayName);
    try {
      const began = tx.begin(this.begin);
      const [result] = await Promise.all([work(tx), began]);
      if (!tx.isEnding) await tx.allAnswered();
      await tx.commit();
      client.release();
      return result;
    } catch (caught) {
      const error = tx.causeOf(caught);
      tx.end();
      await rollBack(client, tx, error);
      this.dropIdleIfSilent(error);
      throw error;
    }
  }

  /**
   * Statements that are all known beforehand, as one transaction in one round trip, COMMIT included; their rows are
   * there only when it is committed. Whatever goes wrong, nothing of it was done, unless the connection broke or the wait for
   * a standby was cancelled.
   */
  async inOneRoundTrip(statements: readonly Statement[]): Promise<unknown[][]> {
    const client = await this.connect();
    const tx = new Transaction(client, undefined, this.mayName);
    try {
      const began = tx.begin(this.begin);
      const issue = () => statements.map(([sql, parameters = []]) => tx.query<unknown>(sql, parameters));
      const [rows] = await Promise.all([tx.commitWith(issue), began]);
      client.release();
      return rows;
    } catch (error) {
      tx.end();
      await rollBack(client, tx, error);
      this.dropIdleIfSilent(error);
      throw error;
    }
  }

  private connect(): Promise<LentClient> {
    return this.pool.connect() as Promise<unknown> as Promise<LentClient>;
  }

  /** A connection outside the pool, for what lasts: LISTEN. */
  standaloneClient(name: string): pg.Client {
    return new pg.Client({
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

  /** The pool gives up a connection on which it failed. */
  private async send(sql: string, parameters: readonly unknown[]): Promise<QueryResult> {
    const values = parameters as unknown[];
    const name = this.mayName ? preparedName(sql) : undefined;
    refuseNaN(sql, values);
    try {
      return await (name ? this.pool.query({ name, text: sql, values }) : this.pool.query(sql, values));
    } catch (error) {
      this.dropIdleIfSilent(error);
      throw error;
    }
  }

  /** Where one connection leads to a server that is no primary any more, those that idle do, too. */
  private dropIdleIfSilent(error: unknown): void {
    if (isReadOnly(error)) this.pool.dropIdle().catch(() => undefined);
  }
}

type LentClient = PipelinedClient & Pick<PoolClient, 'release'>;

export type Statement = readonly [sql: string, parameters?: readonly unknown[]];

/** A column has changed its type, or somebody else has thrown away what was prepared: on a new connection it works. */
const STALE_STATEMENT = new Set(['0A000', '26000']);

async function rollBack(client: LentClient, tx: Transaction, error: unknown): Promise<void> {
  try {
    const rolledBack = client.simpleQuery('ROLLBACK');
    tx.deallocate();
    await rolledBack;
    client.release(STALE_STATEMENT.has(codeOf(error) ?? '') || isReadOnly(error));
  } catch {
    client.release(true);
  }
}
