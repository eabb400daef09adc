import { Inject, Injectable } from '@nestjs/common';
import { Semaphore } from '../clock/semaphore.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Alerts } from '../contract/alerts.ts';
import { Database } from '../database/database.ts';
import { isConflictOfTransactions, isEngineDatabaseAway } from '../database/errors.ts';
import { groupBy } from '../database/group-by.ts';
import type { Transaction } from '../database/transaction.ts';
import { ApplyFailed, type Preparation } from '../inbox/denormalizers/denormalizer-runner.ts';
import type { ClaimedMessage } from '../inbox/inbox-queue.ts';
import { errorText } from '../inbox/processing/failures.ts';
import { Preparations } from '../inbox/processing/preparations.ts';
import { ReadModelTx } from '../inbox/processing/read-model-tx.ts';
import type { ReplayMessage } from './lane-source.ts';
import { type Page, partsOf } from './page.ts';
import { Pages } from './pages.ts';
import type { RegisteredModel } from './read-model-registry.ts';
import type { Rebuild } from './rebuild.ts';
import { ADVANCE, RECORD_FAILURE, SHARE_REBUILD, SKIPPED, STOP, WRITES_ELSEWHERE } from './replay.sql.ts';

const NEVER = new AbortController().signal;

/** One message cannot be applied to the next schema. */
class MessageFailed extends Error {
  constructor(
    readonly row: ReplayMessage,
    readonly reason: unknown,
  ) {
    super('a message failed in the rebuild');
  }
}

type Prepared = ReadonlyMap<number, Preparation>;

/** Applies finished messages to the schema that is not the living one, with the denormalizers of its read model. */
@Injectable()
export class Replay {
  private readonly calls: Semaphore;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly database: Database,
    private readonly pages: Pages,
    private readonly alerts: Alerts,
  ) {
    this.calls = new Semaphore(settings.inboxPrepareConcurrency);
  }

  /**
   * One batch: the next messages of some lanes, in one transaction with the progress of these lanes. Returns how many
   * messages it applied; undefined if there are no more.
   */
  async batch(rebuild: Rebuild, model: RegisteredModel): Promise<number | undefined> {
    const page = await this.pages.next(rebuild, model.types);
    if (!page) return undefined;
    try {
      return await this.applyOrSplit(rebuild, model, page);
    } catch (error) {
      if (!(error instanceof MessageFailed)) throw error;
      await this.fail(rebuild, error);
      return 0;
    } finally {
      this.pages.release(rebuild, page);
    }
  }

  /** In a transaction that has locked the lanes and the rebuild. */
  async apply(
    rebuild: Rebuild,
    model: RegisteredModel,
    rows: readonly ReplayMessage[],
    prepared: Prepared,
    tx: Transaction,
  ): Promise<void> {
    const skipped = await tx.query<{ position: number }>(SKIPPED, [rebuild.id]);
    const without = new Set(skipped.map(({ position }) => position));
    const wanted = rows.filter((row) => row.wanted && !without.has(row.position));
    await tx.execute(`SET LOCAL search_path = ${rebuild.target}, public`);
    const byRow = new Map<ClaimedMessage, Preparation>(
      wanted.flatMap((row) => (prepared.has(row.position) ? [[row, prepared.get(row.position)!]] : [])),
    );
    const before = await this.writesElsewhere(rebuild.target, tx);
    // What denormalizers send is checked and dropped: it was sent when the message was applied the first time.
    await model.runner.apply(wanted, new ReadModelTx(tx), byRow, (work) =>
      tx.withTimeout(this.settings.inboxApplyTimeout, work),
    );
    await this.refuseWritesElsewhere(before, rebuild.target, tx);
    const lanes = groupBy(rows, ({ lane }) => lane);
    const last = lanes.map((ofLane) => ofLane.at(-1)!);
    await tx.execute(ADVANCE, [
      rebuild.id,
      last.map(({ lane }) => lane),
      last.map(({ applied }) => applied),
      last.map(({ position }) => position),
      lanes.map(({ length }) => length),
    ]);
  }

  private async writesElsewhere(target: string, tx: Transaction): Promise<ReadonlyMap<string, number>> {
    const rows = await tx.query<{ name: string; writes: number }>(WRITES_ELSEWHERE, [target]);
    return new Map(rows.map(({ name, writes }) => [name, writes]));
  }

  /** A denormalizer whose SQL names a schema would change the living read model. */
  private async refuseWritesElsewhere(
    before: ReadonlyMap<string, number>,
    target: string,
    tx: Transaction,
  ): Promise<void> {
    for (const [name, writes] of await this.writesElsewhere(target, tx))
      if (writes > (before.get(name) ?? 0))
        throw new ApplyFailed(
          [],
          new Error(`a denormalizer wrote to ${name}: its SQL must not name a schema`),
        );
  }

  /** Whether a message cannot be applied without a call to another system. */
  needsCall(model: RegisteredModel, { type, wanted }: ReplayMessage): boolean {
    return (
      wanted &&
      this.preparing(model)
        .of(type)
        .some(({ instance }) => instance.prepare)
    );
  }

  private async applyOrSplit(rebuild: Rebuild, model: RegisteredModel, page: Page): Promise<number> {
    const prepared = await this.prepare(model, page.rows);
    try {
      return await this.inTransaction(rebuild, model, page, prepared);
    } catch (error) {
      if (!(error instanceof ApplyFailed)) throw error;
      if (isEngineDatabaseAway(error.reason)) throw error.reason;
      if (isConflictOfTransactions(error.reason)) return 0;
      if (page.rows.length === 1) throw new MessageFailed(page.rows[0]!, error.reason);
      let done = 0;
      for (const part of partsOf(page, error.failed)) done += await this.applyOrSplit(rebuild, model, part);
      return done;
    }
  }

  private async inTransaction(
    rebuild: Rebuild,
    model: RegisteredModel,
    page: Page,
    prepared: Prepared,
  ): Promise<number> {
    if (page.rows.length === 0 && !page.history) return 0;
    return this.database.transaction(async (tx) => {
      const [shared] = await tx.query(SHARE_REBUILD, [rebuild.id, rebuild.target]);
      if (!shared) return 0;
      const own = await this.pages.lock(rebuild.id, page, tx);
      if (!own) return 0;
      if (own.length > 0) await this.apply(rebuild, model, own, prepared, tx);
      await this.pages.advance(rebuild.id, page, tx);
      return own.length;
    });
  }

  /** Stops the rebuild, or leaves the message out if that was asked for. */
  private async fail(rebuild: Rebuild, { row, reason }: MessageFailed): Promise<void> {
    const { position, id, source, type, key } = row;
    const error = errorText(reason);
    if (rebuild.options.recordFailures) {
      const values = [rebuild.id, position, source, id, error, 'recordFailures', null];
      await this.database.execute(RECORD_FAILURE, values);
      return;
    }
    const failure = { position, id, source, type, key, error };
    await this.database.transaction(async (tx) => {
      if ((await tx.execute(STOP, [rebuild.id, JSON.stringify(failure)])) === 0) return;
      await this.alerts.raise(
        { name: 'rebuild-stopped', key: rebuild.model, details: { readModel: rebuild.model, ...failure } },
        tx,
      );
    });
  }

  /** The denormalizers whose `prepare` a rebuild calls. */
  private preparing({ denormalizers }: RegisteredModel) {
    return {
      of: (type: string) =>
        denormalizers.of(type).filter(({ options }) => options.rebuild?.prepare !== 'skip'),
    };
  }

  private async prepare(model: RegisteredModel, rows: readonly ReplayMessage[]): Promise<Prepared> {
    const prepared = new Map<number, Preparation>();
    const preparations = new Preparations(this.settings, this.preparing(model) as never);
    const prepareOne = async (row: ReplayMessage) => {
      await this.calls.acquire();
      try {
        const result = await preparations.run(row, NEVER);
        if (result.error !== undefined) throw new MessageFailed(row, result.error);
        prepared.set(row.position, result);
      } finally {
        this.calls.release();
      }
    };
    await Promise.all(rows.filter((row) => this.needsCall(model, row)).map(prepareOne));
    return prepared;
  }
}
