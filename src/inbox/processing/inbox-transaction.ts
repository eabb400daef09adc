import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import { isConflictOfTransactions, isDatabaseAway, isOurDatabaseAway } from '../../database/faults.ts';
import type { Transaction } from '../../database/transaction.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { LeaseLost, type Tenure } from '../../lanes/tenure.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { FanOut } from '../../outbox/fan-out.ts';
import { type Deliveries, ListenersChanged } from '../../outbox/fan-out-deliveries.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { ApplyFailed, type Bound, Effects, type Prepared } from '../denormalizers/effects.ts';
import { IngestStore } from '../ingest-store.ts';
import type { Batch } from './batch.ts';
import type { ClaimedMessage } from './claimed-message.ts';
import { InboxQueue } from './inbox-queue.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { ReadModelTx } from './read-model-tx.ts';
import { SettledByOthers, SettleStore } from './settle-store.ts';
import { Unhandled } from './unhandled.ts';

const CONFLICT_RETRIES = 3;

/** D4: denormalizers, fan-out, finished — in one transaction, all or nothing. And those that only settle. */
@Injectable()
export class InboxTransaction {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: InboxQueue,
    private readonly effects: Effects,
    private readonly fanOut: FanOut,
    private readonly settle: SettleStore,
    private readonly ingest: IngestStore,
    private readonly wakeups: Wakeups,
    private readonly metrics: ProcessingMetrics,
    private readonly laneMetrics: LaneMetrics,
    private readonly unhandled: Unhandled,
  ) {}

  /** Undefined: done. Messages of lanes that were lost are somebody else's now: done as well. */
  async apply(batch: Batch, rows: readonly ClaimedMessage[]): Promise<ApplyFailed | undefined> {
    let mine = rows;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.transact(batch, mine);
        return undefined;
      } catch (error) {
        if (error instanceof LeaseLost) {
          this.lost(batch.tenure, error.lanes);
          mine = mine.filter(({ lane }) => batch.tenure.lanes.has(lane));
          if (mine.length === 0) return undefined;
        } else if (error instanceof SettledByOthers) {
          this.lost(batch.tenure, lanesOf(mine));
          return undefined;
        } else if (error instanceof ListenersChanged) await this.fanOut.catchUp();
        else if (isAway(error)) throw reasonOf(error);
        else if (attempt > CONFLICT_RETRIES || !isConflictOfTransactions(reasonOf(error))) {
          return error instanceof ApplyFailed ? error : new ApplyFailed(mine.length === 1 ? mine : [], error);
        }
      }
    }
  }

  private async transact(
    { tenure, messages, prepared, last }: Batch,
    rows: readonly ClaimedMessage[],
  ): Promise<void> {
    const ended = this.metrics.started(rows);
    const released = last && rows === messages ? [...tenure.lanes] : [];
    const deliveries = this.fanOut.of(rows);
    const sent = await this.inOne(tenure, prepared, rows, deliveries, released).catch((error) => {
      ended(false);
      deliveries.failed(reasonOf(error));
      throw error;
    });
    const outbox = deliveries.committed();
    for (const lane of released) tenure.lanes.delete(lane);
    ended(true);
    this.metrics.finished(rows);
    this.metrics.sent.inc(sent.length);
    this.unhandled.report(rows);
    if (sent.length > 0) this.wakeups.written('inbox', new Set(sent.map(({ lane }) => lane)));
    if (outbox.size) this.wakeups.written('outbox', outbox);
  }

  private inOne(
    tenure: Tenure,
    prepared: Prepared,
    rows: readonly ClaimedMessage[],
    deliveries: Deliveries,
    released: readonly number[],
  ) {
    return this.database.transaction(async (tx) => {
      const fenced = this.queue.lanes.fence(tenure, lanesOf(rows), tx);
      const readModelTx = new ReadModelTx(tx);
      // What the fence says is met below, or here when an effect failed: without the lane that says nothing.
      fenced.catch(() => undefined);
      const bound: Bound = (work) => tx.within(this.settings.inboxApplyTimeout, work);
      await this.effects.apply(rows, readModelTx, prepared, bound).catch(async (error) => {
        await fenced;
        throw error;
      });
      await fenced;
      await tx.last(() => [
        ...deliveries.write(tx),
        readModelTx.storeSent(this.ingest),
        this.settle.finish(rows, tx),
        this.queue.lanes.releaseIn(tx, tenure, released),
        deliveries.takeAlong(tx),
      ]);
      return readModelTx.sent;
    });
  }

  /** A transaction that only settles, and what it settled: not what was lost meanwhile. */
  async fenced(
    tenure: Tenure,
    rows: readonly ClaimedMessage[],
    work: (tx: Transaction, mine: readonly ClaimedMessage[]) => Promise<void>,
  ): Promise<readonly ClaimedMessage[]> {
    let mine = rows;
    while (mine.length > 0) {
      try {
        await this.database.transaction(async (tx) => {
          await this.queue.lanes.fence(tenure, lanesOf(mine), tx);
          await work(tx, mine);
        });
        return mine;
      } catch (error) {
        if (error instanceof LeaseLost) this.lost(tenure, error.lanes);
        else if (error instanceof SettledByOthers) this.lost(tenure, lanesOf(mine));
        else throw error;
        mine = mine.filter(({ lane }) => tenure.lanes.has(lane));
      }
    }
    return mine;
  }

  private lost(tenure: Tenure, lanes: readonly number[]): void {
    this.queue.lanes.lose(tenure, lanes);
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
  return error instanceof ApplyFailed ? isOurDatabaseAway(error.reason) : isDatabaseAway(error);
}
