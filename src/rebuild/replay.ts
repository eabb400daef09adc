import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Database } from '../database/database.ts';
import { isConflictOfTransactions, isEngineDatabaseAway } from '../database/errors.ts';
import { groupBy } from '../database/group-by.ts';
import type { Transaction } from '../database/transaction.ts';
import { ApplyFailed, type Preparation } from '../inbox/denormalizers/denormalizer-runner.ts';
import type { ClaimedMessage } from '../inbox/inbox-queue.ts';
import { ReadModelTx } from '../inbox/processing/read-model-tx.ts';
import type { ReplayMessage } from './lane-source.ts';
import { headsThatFailed, type Page, partsOf, untilFailed } from './page.ts';
import { Pages } from './pages.ts';
import type { RegisteredModel } from './read-model-registry.ts';
import type { Rebuild } from './rebuild.ts';
import { type Prepared, RebuildPreparations } from './rebuild-preparations.ts';
import { ADVANCE, SHARE_REBUILD, SKIPPED, WRITES_ELSEWHERE } from './replay.sql.ts';
import { type FailedMessage, ReplayFailures } from './replay-failures.ts';

const NEVER = new AbortController().signal;

/** What came of a batch. */
export interface BatchResult {
  readonly done: number;
  /** Without `done`: only messages that are not for this read model were passed over. */
  readonly moved: boolean;
}

/** The lanes of messages that failed are right before them. */
interface Outcome extends BatchResult {
  readonly failed: readonly Omit<FailedMessage, 'stuck'>[];
}

const NOTHING: Outcome = { done: 0, moved: false, failed: [] };

/** Applies finished messages to the schema that is not the living one, with the denormalizers of its read model. */
@Injectable()
export class Replay {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly database: Database,
    private readonly pages: Pages,
    private readonly preparations: RebuildPreparations,
    private readonly failures: ReplayFailures,
  ) {}

  /**
   * One batch: the next messages of some lanes, in one transaction with the progress of these lanes. Undefined if there are
   * no more; not moved if others are at work on them, or they wait for a retry.
   */
  async batch(
    rebuild: Rebuild,
    model: RegisteredModel,
    stopping: AbortSignal = NEVER,
  ): Promise<BatchResult | undefined> {
    const waiting = await this.failures.waiting(rebuild);
    const page = await this.pages.next(rebuild, model.types, waiting);
    if (!page) return undefined;
    try {
      return await this.advance(rebuild, model, page, stopping);
    } finally {
      this.pages.release(rebuild, page);
    }
  }

  private async advance(
    rebuild: Rebuild,
    model: RegisteredModel,
    read: Page,
    stopping: AbortSignal,
  ): Promise<BatchResult> {
    const page = { ...read, rows: await this.withoutSkipped(rebuild, read.rows, this.database) };
    const prepared = await this.preparations.run(model, page.rows, stopping);
    if (stopping.aborted) return NOTHING;
    const heads = headsThatFailed(page, prepared);
    const outcome = await this.applyOrSplit(rebuild, model, untilFailed(page, prepared), prepared);
    const failed = [...heads, ...outcome.failed];
    if (failed.length === 0) return outcome;
    const stuck = await this.pages.areAllAmong(rebuild, await this.failures.lanes(rebuild));
    for (const one of failed) await this.failures.settle(rebuild, { ...one, stuck });
    return outcome;
  }

  /** In a transaction that has locked the lanes and the rebuild. */
  async apply(
    rebuild: Rebuild,
    model: RegisteredModel,
    rows: readonly ReplayMessage[],
    prepared: Prepared,
    tx: Transaction,
  ): Promise<void> {
    const wanted = (await this.withoutSkipped(rebuild, rows, tx)).filter((row) => row.wanted);
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

  /** Messages that are left out are passed over, as those of other types are. */
  private async withoutSkipped(
    rebuild: Rebuild,
    rows: readonly ReplayMessage[],
    on: Pick<Database, 'query'>,
  ): Promise<ReplayMessage[]> {
    const skipped = await on.query<{ position: number }>(SKIPPED, [rebuild.id]);
    const without = new Set(skipped.map(({ position }) => position));
    return rows.map((row) => (without.has(row.position) ? { ...row, wanted: false } : row));
  }

  private async applyOrSplit(
    rebuild: Rebuild,
    model: RegisteredModel,
    page: Page,
    prepared: Prepared,
  ): Promise<Outcome> {
    try {
      return await this.inTransaction(rebuild, model, page, prepared);
    } catch (error) {
      if (!(error instanceof ApplyFailed)) throw error;
      if (isEngineDatabaseAway(error.reason)) throw error.reason;
      if (isConflictOfTransactions(error.reason)) return NOTHING;
      if (page.rows.length === 1)
        return { ...NOTHING, failed: [{ row: page.rows[0]!, at: page.from[0]!, reason: error.reason }] };
      return this.applyParts(rebuild, model, partsOf(page, error.failed), prepared);
    }
  }

  private async applyParts(
    rebuild: Rebuild,
    model: RegisteredModel,
    parts: readonly Page[],
    prepared: Prepared,
  ): Promise<Outcome> {
    let { done, moved, failed } = NOTHING;
    for (const part of parts) {
      if (failed.some(({ at }) => part.from.some(({ lane }) => lane === at.lane))) continue;
      const outcome = await this.applyOrSplit(rebuild, model, part, prepared);
      done += outcome.done;
      moved ||= outcome.moved;
      failed = [...failed, ...outcome.failed];
    }
    return { done, moved, failed };
  }

  private async inTransaction(
    rebuild: Rebuild,
    model: RegisteredModel,
    page: Page,
    prepared: Prepared,
  ): Promise<Outcome> {
    if (page.rows.length === 0 && !page.history) return NOTHING;
    return this.database.transaction(async (tx) => {
      const [shared] = await tx.query(SHARE_REBUILD, [rebuild.id, rebuild.target, rebuild.model]);
      if (!shared) return NOTHING;
      const own = await this.pages.lock(rebuild.id, page, tx);
      if (!own) return NOTHING;
      if (own.length > 0) await this.apply(rebuild, model, own, prepared, tx);
      await this.pages.advance(rebuild.id, page, tx);
      return { done: own.length, moved: own.length > 0 || page.history !== undefined, failed: [] };
    });
  }
}
