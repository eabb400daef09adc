import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import { isConflictOfTransactions, isDatabaseAway, isEngineDatabaseAway } from '../../database/errors.ts';
import type { Transaction } from '../../database/transaction.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { type Lease, LeaseLost } from '../../lanes/lease.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { type DeliveryWriter, FanOut, ListenersChanged } from '../../outbox/fan-out/fan-out.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { type EntryWriter, TopicsChanged } from '../../topics/entry-writer.ts';
import { TOPIC_WAKEUPS } from '../../topics/topic.ts';
import {
  ApplyFailed,
  DenormalizerRunner,
  type PreparationsByMessage,
  type TimeLimit,
} from '../denormalizers/denormalizer-runner.ts';
import { type ClaimedMessage, InboxQueue } from '../inbox-queue.ts';
import { IngestStore } from '../ingest-store.ts';
import type { NewMessage } from '../new-message.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { ReadModelTx } from './read-model-tx.ts';
import { RowsChanged, SettleStore } from './settle-store.ts';
import { UnhandledTypes } from './unhandled-types.ts';

/** Messages claimed together, from lanes leased under one token. */
export interface ClaimedBatch {
  readonly lease: Lease;
  readonly messages: readonly ClaimedMessage[];
  /** They are all there is in these lanes: if they are applied together, the same transaction releases the lanes. */
  readonly last?: boolean;
  /** Called after each transaction: a batch that fails is retried in parts, and that can take long. */
  readonly progressed?: () => void;
  /** Once this is aborted, messages that were being prepared are given back instead of applied. */
  readonly stopping?: AbortSignal;
}

/** The messages that are left to apply, with what `prepare` returned for them. */
export interface Batch extends ClaimedBatch {
  readonly prepared: PreparationsByMessage;
}

const CONFLICT_RETRIES = 3;

/** What one transaction applies and writes. */
interface ApplyWork {
  readonly lease: Lease;
  readonly prepared: PreparationsByMessage;
  readonly rows: readonly ClaimedMessage[];
  readonly deliveries: DeliveryWriter;
  readonly entries: EntryWriter;
  readonly released: readonly number[];
}

/** Denormalizers, fan-out and settling in one transaction, all or nothing. Also transactions that only settle. */
@Injectable()
export class InboxTransaction {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Pick<Settings, 'inboxApplyTimeout'>,
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: InboxQueue,
    private readonly runner: DenormalizerRunner,
    private readonly fanOut: FanOut,
    private readonly settle: SettleStore,
    private readonly ingest: IngestStore,
    private readonly wakeups: Wakeups,
    private readonly metrics: ProcessingMetrics,
    private readonly laneMetrics: LaneMetrics,
    private readonly unhandled: UnhandledTypes,
  ) {}

  /**
   * Applies the messages in one transaction, which is repeated after a conflict, without lost lanes, and with newly read
   * listeners and topics. Returns why it failed. Undefined: nothing is left to do, also because the lanes were lost: another
   * replica has the messages now.
   */
  async apply(batch: Batch, rows: readonly ClaimedMessage[]): Promise<ApplyFailed | undefined> {
    let remaining = rows;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.transact(batch, remaining);
        return undefined;
      } catch (error) {
        if (error instanceof LeaseLost) {
          this.removeLost(batch.lease, error.lanes);
          remaining = remaining.filter(({ lane }) => batch.lease.lanes.has(lane));
          if (remaining.length === 0) return undefined;
        } else if (error instanceof RowsChanged) {
          this.removeLost(batch.lease, lanesOf(remaining));
          return undefined;
        } else if (error instanceof ListenersChanged || error instanceof TopicsChanged)
          await this.fanOut.refreshTargets();
        else if (isAway(error)) throw reasonOf(error);
        else if (attempt > CONFLICT_RETRIES || !isConflictOfTransactions(reasonOf(error))) {
          return error instanceof ApplyFailed
            ? error
            : new ApplyFailed(remaining.length === 1 ? remaining : [], error);
        }
      }
    }
  }

  /** The transaction, and what follows from its COMMIT in this process. */
  private async transact(batch: Batch, rows: readonly ClaimedMessage[]): Promise<void> {
    const { lease, prepared } = batch;
    const ended = this.metrics.started(rows);
    const released = lanesToRelease(batch, rows);
    const deliveries = this.fanOut.writerFor(rows);
    const entries = this.fanOut.entriesFor(rows);
    const work = { lease, prepared, rows, deliveries, entries, released };
    const sent = await this.applyInOneTransaction(work).catch((error) => {
      ended(false);
      deliveries.failed(reasonOf(error));
      throw error;
    });
    const outbox = deliveries.committed();
    for (const lane of released) lease.lanes.delete(lane);
    ended(true);
    this.metrics.finished(rows);
    this.metrics.sent.inc(sent.length);
    this.unhandled.report(rows);
    if (sent.length > 0) this.wakeups.announce('inbox', new Set(sent.map(({ lane }) => lane)));
    if (outbox.size) this.wakeups.announce('outbox', outbox);
    if (entries.partitionIds.size) this.wakeups.announce(TOPIC_WAKEUPS, entries.partitionIds);
  }

  /** Fence, denormalizers, then everything else together with COMMIT. Returns the messages that denormalizers sent. */
  private applyInOneTransaction(work: ApplyWork): Promise<readonly NewMessage[]> {
    return this.database.transaction(async (tx) => {
      const readModelTx = new ReadModelTx(tx);
      await this.fenceAndApply(work, tx, readModelTx);
      await tx.commitWith(() => this.lastStatements(work, tx, readModelTx));
      return readModelTx.sent;
    });
  }

  /**
   * The fence is the first statement, so it locks the lanes before any denormalizer reads. It is not awaited before they
   * start: it takes no round trip of its own. Awaited in any case: the error of a denormalizer does not count if the lane
   * is lost.
   */
  private async fenceAndApply(
    { lease, prepared, rows }: ApplyWork,
    tx: Transaction,
    readModelTx: ReadModelTx,
  ): Promise<void> {
    const fenced = this.queue.lanes.fence(lease, lanesOf(rows), tx);
    fenced.catch(() => undefined);
    const timeLimit: TimeLimit = (work) => tx.withTimeout(this.settings.inboxApplyTimeout, work);
    await this.runner.apply(rows, readModelTx, prepared, timeLimit).catch(async (error) => {
      await fenced;
      throw error;
    });
    await fenced;
  }

  /**
   * One round trip with COMMIT. The server runs them in this order, and nothing after the first one that fails:
   *
   *  1. `deliveries.write`: asserts that this replica knows all listeners, then inserts one delivery for each.
   *  2. `storeSent`: inserts what denormalizers sent. Both inserts come before 3, which sets planner options for itself and
   *     everything after it; those are for statements that find rows by an index.
   *  3. `settle.finish`: asserts that every row is still claimed at its attempt, the second guard after the fence.
   *  4. `releaseIn`: after 3, because only a lane whose rows are settled may be released.
   *  5. `issuePiggyback`: leases lanes of the outbox and claims from them; after 1, which wrote the rows to claim.
   *  6. `entries.write`: asserts that this replica knows all topics, then locks the partitions and appends. Last, because
   *     every other transaction that appends to one of these partitions waits from here to the COMMIT.
   */
  private lastStatements(
    { lease, rows, deliveries, entries, released }: ApplyWork,
    tx: Transaction,
    readModelTx: ReadModelTx,
  ): readonly Promise<void>[] {
    return [
      ...deliveries.write(tx),
      readModelTx.storeSent(this.ingest),
      this.settle.finish(rows, tx),
      this.queue.lanes.releaseIn(tx, lease, released),
      deliveries.issuePiggyback(tx),
      ...entries.write(tx),
    ];
  }

  /** A transaction that only settles. Returns the messages that it settled, without those of lanes that were lost. */
  async settleOnly(
    lease: Lease,
    rows: readonly ClaimedMessage[],
    work: (tx: Transaction, remaining: readonly ClaimedMessage[]) => Promise<void>,
  ): Promise<readonly ClaimedMessage[]> {
    let remaining = rows;
    while (remaining.length > 0) {
      try {
        await this.database.transaction(async (tx) => {
          await this.queue.lanes.fence(lease, lanesOf(remaining), tx);
          await work(tx, remaining);
        });
        return remaining;
      } catch (error) {
        if (error instanceof LeaseLost) this.removeLost(lease, error.lanes);
        else if (error instanceof RowsChanged) this.removeLost(lease, lanesOf(remaining));
        else throw error;
        remaining = remaining.filter(({ lane }) => lease.lanes.has(lane));
      }
    }
    return remaining;
  }

  private removeLost(lease: Lease, lanes: readonly number[]): void {
    this.queue.lanes.lose(lease, lanes);
    this.laneMetrics.fencedWrite('inbox');
    this.log.warn(
      { event: 'inbox.lease-lost', lanes },
      'another replica took over; nothing of this work took effect',
    );
  }
}

/** All lanes of the lease, if nothing is left in them once these rows are applied. */
function lanesToRelease(
  { lease, messages, last }: Batch,
  rows: readonly ClaimedMessage[],
): readonly number[] {
  const isWholeBatch = rows.length === messages.length;
  return last && isWholeBatch ? [...lease.lanes] : [];
}

function lanesOf(rows: readonly ClaimedMessage[]): number[] {
  return [...new Set(rows.map(({ lane }) => lane))];
}

function reasonOf(error: unknown): unknown {
  return error instanceof ApplyFailed ? error.reason : error;
}

function isAway(error: unknown): boolean {
  return error instanceof ApplyFailed ? isEngineDatabaseAway(error.reason) : isDatabaseAway(error);
}
