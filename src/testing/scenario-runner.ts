import { DataSource, type EntityManager } from 'typeorm';
import { loadSettings } from '../config/settings.ts';
import type { ReadModel } from '../contract/read-model.ts';
import { dataSourceOptions } from '../database/data-source-options.ts';
import { Database } from '../database/database.ts';
import { migrate } from '../database/migrate.ts';
import type { Transaction } from '../database/transaction.ts';
import type { DeclaredDenormalizer } from '../inbox/denormalizers/declared-denormalizer.ts';
import {
  ApplyFailed,
  DenormalizerRunner,
  type PreparationsByMessage,
} from '../inbox/denormalizers/denormalizer-runner.ts';
import { Denormalizers } from '../inbox/denormalizers/denormalizers.ts';
import type { ClaimedMessage } from '../inbox/inbox-queue.ts';
import { decide, type Failure } from '../inbox/processing/failures.ts';
import { Preparations } from '../inbox/processing/preparations.ts';
import { ReadModelTx } from '../inbox/processing/read-model-tx.ts';
import { triage } from '../inbox/processing/triage.ts';
import type { TestMessage } from './test-message.ts';

const SETTINGS = loadSettings({});

/** How messages are applied: each alone, or all in one batch. */
export type ApplyMode = 'one by one' | 'in one batch';

/** The result of applying messages. */
export interface Result {
  readonly failures: readonly { readonly row: ClaimedMessage; readonly failure: Failure }[];
  readonly superseded: readonly ClaimedMessage[];
  readonly sent: readonly { readonly type: string; readonly key: string; readonly payload: unknown }[];
}

/** Thrown to roll back the transaction of every run. */
class Rollback extends Error {}

function ignoreRollback(error: unknown): void {
  if (!(error instanceof Rollback)) throw error;
}

/** Applies messages with the same code as the service, and rolls back afterwards. */
export class ScenarioRunner {
  private constructor(
    private readonly dataSource: DataSource,
    private readonly database: Database,
  ) {}

  static async open(databaseUrl: string, readModel: ReadModel): Promise<ScenarioRunner> {
    await migrate(databaseUrl, SETTINGS, [readModel]);
    const dataSource = new DataSource(dataSourceOptions(databaseUrl, SETTINGS, [readModel]));
    await dataSource.initialize();
    const database = new Database(databaseUrl, SETTINGS, dataSource, () => undefined, [readModel.name]);
    return new ScenarioRunner(dataSource, database);
  }

  async close(): Promise<void> {
    await this.database.close();
    await this.dataSource.destroy();
  }

  /** Applies messages in a transaction of their own, which is committed if all succeed; `first` is a statement to begin it with. */
  async apply(
    declared: readonly DeclaredDenormalizer[],
    rows: readonly ClaimedMessage[],
    way: ApplyMode,
    first?: string,
  ): Promise<Result> {
    let result: Result;
    const applied = this.database.transaction(async (tx) => {
      if (first) await tx.execute(first);
      result = await new Run(declared, tx).apply(rows, way);
      if (result.failures.length > 0) throw new Rollback();
    });
    await applied.catch(ignoreRollback);
    return result!;
  }

  query<Row>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    return this.database.query<Row>(sql, parameters);
  }

  /** Applies `given`, then `when`, and passes the result to `check` before the rollback. */
  async run(
    declared: readonly DeclaredDenormalizer[],
    way: ApplyMode,
    given: readonly TestMessage[],
    when: readonly TestMessage[],
    check: (result: Result, manager: EntityManager) => Promise<void>,
  ): Promise<void> {
    const rows = [...given, ...when].map(rowOf);
    const rolledBack = this.database.transaction(async (tx) => {
      const before = await new Run(declared, tx).apply(rows.slice(0, given.length), way);
      const [unfit] = before.failures;
      if (unfit) throw new Error(`given ${unfit.row.type}: ${unfit.failure.error}`);
      await check(await new Run(declared, tx).apply(rows.slice(given.length), way), tx.manager);
      throw new Rollback();
    });
    await rolledBack.catch(ignoreRollback);
  }
}

class Run {
  private readonly denormalizers = new Denormalizers(undefined as never);
  private readonly effects = new DenormalizerRunner(this.denormalizers);
  private readonly sent: Result['sent'][number][] = [];

  constructor(
    declared: readonly DeclaredDenormalizer[],
    private readonly tx: Transaction,
  ) {
    this.denormalizers.use(declared);
  }

  async apply(rows: readonly ClaimedMessage[], way: ApplyMode): Promise<Result> {
    const { ready, superseded } = triage(rows, {
      slotOf: (type) => this.denormalizers.slotOf(type),
      rankOf: (type) => this.denormalizers.rankOf(type),
      lastOf: new Map(),
    });
    const prepared = await this.prepare(ready);
    const failures =
      way === 'in one batch' ? await this.inOneBatch(ready, prepared) : await this.oneByOne(ready, prepared);
    return { failures, superseded: superseded.map(({ message }) => message), sent: this.sent };
  }

  private async inOneBatch(rows: readonly ClaimedMessage[], prepared: PreparationsByMessage) {
    const failed = await this.failureOf(rows, prepared);
    if (!failed) return [];
    const failures = await this.oneByOne(rows, prepared);
    // The service would still make progress, one message at a time, but always slowly.
    if (failures.length === 0)
      throw new Error(`each message can be applied alone, but not in one batch: ${failed.reason}`);
    return failures;
  }

  /** As the service does when a batch fails: messages behind a failed one wait with its key. */
  private async oneByOne(rows: readonly ClaimedMessage[], prepared: PreparationsByMessage) {
    const failures: { row: ClaimedMessage; failure: Failure }[] = [];
    for (const row of rows) {
      if (failures.some((failed) => failed.row.key === row.key)) continue;
      const failed = await this.failureOf([row], prepared);
      const failure = failed && decide(failed.reason, row.attempt, SETTINGS.inboxRetrySchedule);
      if (failure) failures.push({ row, failure });
    }
    return failures;
  }

  private async failureOf(
    rows: readonly ClaimedMessage[],
    prepared: PreparationsByMessage,
  ): Promise<{ readonly reason: unknown } | undefined> {
    const unprepared = rows.find((row) => prepared.get(row)?.error !== undefined);
    if (unprepared) return { reason: prepared.get(unprepared)!.error };
    const readModelTx = new ReadModelTx(this.tx);
    await this.tx.execute('SAVEPOINT scenario');
    try {
      await this.effects.apply(rows, readModelTx, prepared);
    } catch (error) {
      await this.tx.execute('ROLLBACK TO SAVEPOINT scenario');
      return { reason: error instanceof ApplyFailed ? error.reason : error };
    }
    for (const { type, key, payload } of readModelTx.sent)
      this.sent.push({ type, key, payload: JSON.parse(payload) });
    return undefined;
  }

  private async prepare(rows: readonly ClaimedMessage[]): Promise<PreparationsByMessage> {
    const preparations = new Preparations(SETTINGS, this.denormalizers);
    const needing = rows.filter((row) => preparations.needed(row));
    const { signal } = new AbortController();
    const pairs = needing.map(async (row) => [row, await preparations.run(row, signal)] as const);
    return new Map(await Promise.all(pairs));
  }
}

const FIRST_RECEIVED = Date.UTC(2026, 0, 1);

/** As stored in the inbox: ids m-1, m-2, …; received one second apart. */
export function rowOf(message: TestMessage, index: number): ClaimedMessage {
  return {
    position: index + 1,
    lane: 0,
    place: `(0,${index + 1})`,
    id: `m-${index + 1}`,
    source: message.source ?? 'urn:test',
    type: message.type,
    key: message.key,
    keyless: false,
    attempt: 1,
    payload: JSON.stringify(message.payload),
    bytes: 0,
    headers: message.headers ?? null,
    occurred_at: message.occurredAt ?? null,
    received_at: new Date(FIRST_RECEIVED + index * 1_000),
    expires_at: null,
    expired: false,
  };
}
