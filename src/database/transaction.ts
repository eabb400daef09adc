import type { QueryResult } from 'pg';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { formatDuration } from '../config/duration.ts';
import { codeOf, markAsOurs } from './faults.ts';
import type { PipelinedClient } from './pipelined-client.ts';
import { preparedName, refuseNaN } from './prepared.ts';

/** A statement in a transaction in which another one has failed. */
const ABORTED = '25P02';

/** No name is used twice, whatever became of the first. */
let lastName = 0;

/** Work in a transaction did not end in the time it was given. */
export class TransactionTimeout extends Error {
  constructor(ms: number) {
    super(`it took longer than ${formatDuration(ms)}`);
    this.name = 'TookTooLong';
  }
}

/**
 * An open transaction. Statements issued without awaiting each other are pipelined: they reach the server in
 * the order issued, in one round trip, and of those issued in one turn the first that fails keeps the others from being
 * tried. A text that comes a second time is parsed once for all the times to come, and
 * forgotten with the transaction (measured: an upsert per message cost the server 96 µs, and 36 then), unless it is one
 * that is kept.
 */
export class Transaction {
  /** Statements that are not answered yet. */
  private unanswered = 0;
  private failure: { readonly reason: unknown } | undefined;
  /** By us: the server has never heard of it, and would commit the rest. */
  private refused: { readonly reason: unknown } | undefined;
  private onAnswered: () => void = () => undefined;
  /** Texts that came before, with their names if they came more than once. */
  private readonly uses = new Map<string, string | undefined>();
  private entityManager: EntityManager | undefined;
  private over = false;
  private committed: Promise<void> | undefined;

  constructor(
    private readonly client: PipelinedClient,
    private readonly dataSource: DataSource | undefined,
    /** Behind a pooler another server connection would get to see the names. */
    private readonly mayName: boolean,
  ) {}

  /** To be issued first. */
  async begin(statements: readonly string[]): Promise<void> {
    await Promise.all(statements.map((text) => this.client.issue({ text })));
  }

  /** One statement, its rows. */
  query<Row>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    return this.track(this.send(sql, parameters), ({ rows }) => rows as Row[]);
  }

  /** One statement, how many rows it changed. */
  execute(sql: string, parameters: readonly unknown[] = []): Promise<number> {
    return this.track(this.send(sql, parameters), ({ rowCount }) => rowCount ?? 0);
  }

  /** TypeORM on this very transaction. `manager.transaction()` inside it makes a savepoint, never a COMMIT. */
  get manager(): EntityManager {
    this.entityManager ??= managerOn((sql, parameters) => {
      const sent = this.send(sql, parameters);
      sent.catch(markAsOurs);
      return sent;
    }, this.dataSource);
    return this.entityManager;
  }

  /** Resolves when every statement issued so far has been answered; rejects with the first one's error. */
  async allAnswered(): Promise<void> {
    while (this.unanswered > 0 && !this.failure) {
      await new Promise<void>((resolve) => {
        this.onAnswered = resolve;
      });
    }
    if (this.failure) throw this.failure.reason;
  }

  /**
   * The last statements, all issued before `issue` returns: COMMIT goes with them, in the same round trip. Only an error
   * of one of them keeps it from happening, so what must hold is for the statements to say, not for whoever reads the
   * answers. Rejects with what failed by itself: the statements after it, and COMMIT, fail because of it.
   */
  async commitWith<Answer>(issue: () => readonly Promise<Answer>[]): Promise<Answer[]> {
    const issued = issue();
    const [committed, ...answers] = await Promise.allSettled([this.commit(), ...issued]);
    const failures = answers.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    const cause = failures.find((reason) => codeOf(reason) !== ABORTED) ?? failures[0];
    if (cause !== undefined) throw cause;
    if (committed.status === 'rejected') throw committed.reason;
    return answers.map((one) => (one as PromiseFulfilledResult<Awaited<Answer>>).value);
  }

  /** Once; what was said to be last has it with it. */
  commit(): Promise<void> {
    this.committed ??= this.sendCommit();
    return this.committed;
  }

  /** Its COMMIT is on its way, or was answered: whatever failed before and was undone does not count any more. */
  get isEnding(): boolean {
    return this.committed !== undefined;
  }

  private async sendCommit(): Promise<void> {
    this.end();
    if (this.refused) throw this.refused.reason;
    const answer = this.client.issue({ text: 'COMMIT' });
    this.deallocate();
    const { command } = await answer;
    // COMMIT of a transaction in which a statement failed says ROLLBACK, and is no error to the server.
    if (command !== 'COMMIT') throw new Error('a statement of the transaction had failed: nothing was kept');
  }

  /**
   * The answer of the work; rejects before there is one when the connection breaks, or after so long. Work that waits for
   * something else than the database would not hear of it.
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
   * From here on nothing is sent: a branch of the work that still runs after another one failed would write
   * outside of any transaction, or into that of the connection's next user.
   */
  end(): void {
    this.over = true;
  }

  private send(sql: string, parameters: readonly unknown[] | undefined): Promise<QueryResult> {
    if (this.over) return Promise.reject(new Error('the transaction is over'));
    const values = parameters as unknown[] | undefined;
    const name = this.nameOf(sql, values);
    const isKept = preparedName(sql) !== undefined;
    const isText = !isKept && (values === undefined || values.length === 0);
    try {
      if (isKept) refuseNaN(sql, values ?? []);
      return isText ? this.client.simpleQuery(sql) : this.client.issue({ name, text: sql, values });
    } catch (reason) {
      this.refused ??= { reason };
      return Promise.reject(reason);
    }
  }

  /** One that is not kept: from its second use on. */
  private nameOf(sql: string, values: readonly unknown[] | undefined): string | undefined {
    if (!this.mayName) return undefined;
    const kept = preparedName(sql);
    if (kept || !values?.length) return kept;
    if (!this.uses.has(sql)) {
      this.uses.set(sql, undefined);
      return undefined;
    }
    const known = this.uses.get(sql);
    if (known) return known;
    lastName += 1;
    const name = `sluice_${lastName}`;
    this.uses.set(sql, name);
    return name;
  }

  /**
   * What is not kept does not stay prepared on the connection. To be issued once the transaction is over, whichever way: what
   * goes with a COMMIT that is skipped is skipped with it.
   */
  deallocate(): void {
    for (const name of this.uses.values()) if (name !== undefined) this.client.deallocate(name);
  }

  /** A statement nobody awaits must not outlive its transaction, and its failure must still roll it back. */
  private track<T>(sent: Promise<QueryResult>, pick: (result: QueryResult) => T): Promise<T> {
    this.unanswered += 1;
    const answer = sent.then(pick, (reason) => {
      markAsOurs(reason);
      markAsOurs(reason.cause);
      this.failure ??= { reason };
      // As node-postgres does: the stack of whoever asked, not of the socket.
      Error.captureStackTrace(reason);
      throw reason;
    });
    const answered = () => {
      this.unanswered -= 1;
      if (this.unanswered === 0 || this.failure) this.onAnswered();
    };
    // After whoever waits for it: what they issue next is waited for, too.
    answer.then(answered, answered);
    return answer;
  }

  /** What a failure that was only due to another one was due to, as far as it is known. */
  causeOf(error: unknown): unknown {
    return codeOf(error) === ABORTED ? (this.failure?.reason ?? error) : error;
  }
}

type Send = (sql: string, parameters: readonly unknown[] | undefined) => Promise<QueryResult>;

/** Binds a TypeORM query runner to a connection that is inside a transaction already. */
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
