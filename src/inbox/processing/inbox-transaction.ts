import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import { isConflictOfTransactions, isDatabaseAway, isEngineDatabaseAway } from '../../database/faults.ts';
import type { Transaction } from '../../database/transaction.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { type Lease, LeaseLost } from '../../lanes/lease.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { type DeliveryWriter, ListenersChanged } from '../../outbox/fan-out/delivery-writer.ts';
import { FanOut } from '../../outbox/fan-out/fan-out.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import {
  ApplyFailed,
  DenormalizerRunner,
  type Prepared,
  type TimeLimit,
} from '../denormalizers/denormalizer-runner.ts';
import { IngestStore } from '../ingest-store.ts';
import type { Batch } from './batch.ts';
import { InboxQueue } from './inbox-queue.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { ReadModelTx } from './read-model-tx.ts';
import { RowsChanged, SettleStore } from './settle-store.ts';
import { UnhandledTypes } from './unhandled-types.ts';

const CONFLICT_RETRIES = 3;

/** D4: denormalizers, fan-out and settling in one transaction, all or nothing. Also transactions that only settle. */
@Injectable()
export class InboxTransaction {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
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

  /** Undefined: nothing is left to do. That includes messages of lanes that were lost: another replica has them now. */
  async apply(batch: Batch, rows: readonly ClaimedMessage[]): Promise<ApplyFailed | undefined> {
    let held = rows;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.transact(batch, held);
        return undefined;
      } catch (error) {
        if (error instanceof LeaseLost) {
          this.removeLost(batch.lease, error.lanes);
          held = held.filter(({ lane }) => batch.lease.lanes.has(lane));
          if (held.length === 0) return undefined;
        } else if (error instanceof RowsChanged) {
          this.removeLost(batch.lease, lanesOf(held));
          return undefined;
        } else if (error instanceof ListenersChanged) await this.fanOut.refreshListeners();
        else if (isAway(error)) throw reasonOf(error);
        else if (attempt > CONFLICT_RETRIES || !isConflictOfTransactions(reasonOf(error))) {
          return error instanceof ApplyFailed ? error : new ApplyFailed(held.length === 1 ? held : [], error);
        }
      }
    }
  }

  private async transact(
    { lease, messages, prepared, last }: Batch,
    rows: readonly ClaimedMessage[],
  ): Promise<void> {
    const ended = this.metrics.started(rows);
    const released = last && rows === messages ? [...lease.lanes] : [];
    const deliveries = this.fanOut.writerFor(rows);
    const sent = await this.applyInOneTransaction(lease, prepared, rows, deliveries, released).catch(
      (error) => {
        ended(false);
        deliveries.failed(reasonOf(error));
        throw error;
      },
    );
    const outbox = deliveries.committed();
    for (const lane of released) lease.lanes.delete(lane);
    ended(true);
    this.metrics.finished(rows);
    this.metrics.sent.inc(sent.length);
    this.unhandled.report(rows);
    if (sent.length > 0) this.wakeups.announce('inbox', new Set(sent.map(({ lane }) => lane)));
    if (outbox.size) this.wakeups.announce('outbox', outbox);
  }

  private applyInOneTransaction(
    lease: Lease,
    prepared: Prepared,
    rows: readonly ClaimedMessage[],
    deliveries: DeliveryWriter,
    released: readonly number[],
  ) {
    return this.database.transaction(async (tx) => {
      const fenced = this.queue.lanes.fence(lease, lanesOf(rows), tx);
      const readModelTx = new ReadModelTx(tx);
      // Awaited below, or here when a denormalizer failed: its error does not count if the lane is lost.
      fenced.catch(() => undefined);
      const timeLimit: TimeLimit = (work) => tx.withTimeout(this.settings.inboxApplyTimeout, work);
      await this.runner.apply(rows, readModelTx, prepared, timeLimit).catch(async (error) => {
        await fenced;
        throw error;
      });
      await fenced;
      await tx.commitWith(() => [
        ...deliveries.write(tx),
        readModelTx.storeSent(this.ingest),
        this.settle.finish(rows, tx),
        this.queue.lanes.releaseIn(tx, lease, released),
        deliveries.issuePiggyback(tx),
      ]);
      return readModelTx.sent;
    });
  }

  /** A transaction that only settles. Returns the messages that it settled, without those of lanes that were lost. */
  async fenced(
    lease: Lease,
    rows: readonly ClaimedMessage[],
    work: (tx: Transaction, held: readonly ClaimedMessage[]) => Promise<void>,
  ): Promise<readonly ClaimedMessage[]> {
    let held = rows;
    while (held.length > 0) {
      try {
        await this.database.transaction(async (tx) => {
          await this.queue.lanes.fence(lease, lanesOf(held), tx);
          await work(tx, held);
        });
        return held;
      } catch (error) {
        if (error instanceof LeaseLost) this.removeLost(lease, error.lanes);
        else if (error instanceof RowsChanged) this.removeLost(lease, lanesOf(held));
        else throw error;
        held = held.filter(({ lane }) => lease.lanes.has(lane));
      }
    }
    return held;
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

function lanesOf(rows: readonly ClaimedMessage[]): number[] {
  return [...new Set(rows.map(({ lane }) => lane))];
}

function reasonOf(error: unknown): unknown {
  return error instanceof ApplyFailed ? error.reason : error;
}

function isAway(error: unknown): boolean {
  return error instanceof ApplyFailed ? isEngineDatabaseAway(error.reason) : isDatabaseAway(error);
}
