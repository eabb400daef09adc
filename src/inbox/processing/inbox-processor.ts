import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Refuse } from '../../contract/outcomes.ts';
import { Database } from '../../database/database.ts';
import type { Lease } from '../../lanes/lease.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { ApplyFailed, hungWithoutQuery } from '../denormalizers/denormalizer-runner.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';
import { type ClaimedMessage, InboxQueue, inParts, isLoaded, withPayloads } from '../inbox-queue.ts';
import { decide, type Failure, split, type WorkItem, workItem } from './failures.ts';
import { type Batch, type ClaimedBatch, InboxTransaction } from './inbox-transaction.ts';
import { PrepareBatch } from './preparations.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { SettleStore } from './settle-store.ts';
import { Triage } from './triage.ts';

interface BatchProgress extends Batch {
  /** Keys with a message that failed or became a dead letter: later messages of these keys wait too. */
  readonly waiting: Set<string>;
}

/** The message was claimed beyond its last attempt: it is not tried again, so no further attempt is counted. */
class ReplicaDied extends Refuse {}

/**
 * Processes claimed messages: triage → prepare → apply → settle. A batch is applied in one transaction if possible,
 * otherwise in parts, so that an attempt is counted only of the messages that failed.
 */
@Injectable()
export class InboxProcessor {
  private readonly maxAttempts: number;

  constructor(
    @Inject(SETTINGS_TOKEN)
    private readonly settings: Pick<Settings, 'inboxRetrySchedule' | 'inboxUnhandled' | 'inboxOnDead'>,
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: InboxQueue,
    private readonly denormalizers: Denormalizers,
    private readonly triage: Triage,
    private readonly prepareBatch: PrepareBatch,
    private readonly transaction: InboxTransaction,
    private readonly settle: SettleStore,
    private readonly metrics: ProcessingMetrics,
  ) {
    this.maxAttempts = settings.inboxRetrySchedule.length + 1;
  }

  /** Settles every message of the batch. Throws only errors that no message is known to have caused. */
  async process(claimed: ClaimedBatch): Promise<void> {
    // Superseded messages are ended first, so they call no other system.
    const ready = await this.triage.endExpiredAndSuperseded(claimed.lease, claimed.messages);
    const batch = await this.prepareBatch.run(claimed, ready);
    if (claimed.stopping?.aborted) await this.queue.lanes.giveBack(claimed.lease);
    else await this.applyAndSettle({ ...batch, waiting: new Set() });
  }

  private async applyAndSettle(batch: BatchProgress): Promise<void> {
    if (batch.messages.every(isLoaded)) return this.applyRows(batch, batch.messages);
    const parts = inParts(batch.messages);
    for (const part of parts) await this.applyPart(batch, part, parts.length === 1);
  }

  /** A part is as much as may be in memory. Messages behind a failure in an earlier part wait with their key. */
  private async applyPart(
    batch: BatchProgress,
    part: readonly ClaimedMessage[],
    isAll: boolean,
  ): Promise<void> {
    await this.keepWaiting(
      batch.lease,
      part.filter(({ key }) => batch.waiting.has(key)),
    );
    const free = part.filter(({ key }) => !batch.waiting.has(key));
    const rows = await withPayloads(free, this.database);
    const prepared = new Map(
      free.flatMap((row, index) => {
        const preparation = batch.prepared.get(row);
        return preparation ? [[rows[index]!, preparation]] : [];
      }),
    );
    await this.applyRows({ ...batch, prepared, messages: isAll ? rows : batch.messages }, rows);
  }

  /** Works through a list: all messages together first; when they fail, the smaller items that they are split into. */
  private async applyRows(batch: BatchProgress, rows: readonly ClaimedMessage[]): Promise<void> {
    const items = [workItem(rows)];
    for (let item = items.shift(); item; item = items.shift()) {
      // Before the items that are left: the messages of a key stay in order.
      if (item.rows.length > 0) items.unshift(...(await this.applyItem(batch, item)));
    }
  }

  /** Returns the items that follow from this one. */
  private async applyItem(
    batch: BatchProgress,
    item: WorkItem<ClaimedMessage>,
  ): Promise<WorkItem<ClaimedMessage>[]> {
    const { rows, behind, failures, failedBatch } = item;
    if (failedBatch && batch.waiting.has(rows[0]!.key)) {
      await this.keepWaiting(batch.lease, [...rows, ...behind]);
      return [];
    }
    const failure = this.knownFailure(batch, item) ?? (await this.transaction.apply(batch, rows));
    batch.progressed?.();
    if (!failure) return [workItem(behind)];
    await this.renewIfDue(batch.lease);
    if (rows.length > 1) return split(rows, failures, failure, failure.failed);
    return this.failAlone(batch, item, failure);
  }

  /** Messages that are known to fail are not tried. */
  private knownFailure(
    { prepared }: Batch,
    { rows, failedBatch }: WorkItem<ClaimedMessage>,
  ): ApplyFailed | undefined {
    if (failedBatch?.hangs) return failedBatch.failure;
    for (const row of rows) {
      if (row.attempt > this.maxAttempts) {
        return new ApplyFailed(
          [row],
          new ReplicaDied(`its replica died at its last attempt (${row.attempt - 1})`),
        );
      }
      const preparation = prepared.get(row);
      if (preparation?.error !== undefined) return new ApplyFailed([row], preparation.error);
      if (this.settings.inboxUnhandled === 'dead' && this.denormalizers.of(row.type).length === 0) {
        return new ApplyFailed([row], new Refuse(`no denormalizer handles the type "${row.type}"`));
      }
    }
    return undefined;
  }

  /** A message that hung may have used up most of the lease. */
  private async renewIfDue(lease: Lease): Promise<void> {
    if (performance.now() >= lease.renewAtMs) await this.queue.lanes.renew(lease);
  }

  private async failAlone(
    batch: BatchProgress,
    { rows, behind, failedBatch }: WorkItem<ClaimedMessage>,
    { reason }: ApplyFailed,
  ): Promise<WorkItem<ClaimedMessage>[]> {
    const row = rows[0]!;
    // So do the others that hung without a query in the same batch, and each would take as long again to show it.
    if (failedBatch && hungWithoutQuery(failedBatch.failure.reason)) failedBatch.hangs = true;
    const keyWaits = await this.fail(batch.lease, row, reason, behind);
    if (!keyWaits) return [workItem(behind)];
    batch.waiting.add(row.key);
    return [];
  }

  /** Returns whether the key waits now: then the messages behind it are put back too, and their attempt is not counted. */
  private async fail(
    lease: Lease,
    row: ClaimedMessage,
    reason: unknown,
    behind: readonly ClaimedMessage[],
  ): Promise<boolean> {
    const failure = decide(reason, row.attempt, this.settings.inboxRetrySchedule);
    const holds = this.settings.inboxOnDead === 'hold' && !row.keyless;
    const keyWaits = failure.kind !== 'dead' || holds;
    const counted = !(reason instanceof ReplicaDied);
    const settled = await this.transaction.settleOnly(lease, [row, ...behind], async (tx) => {
      await Promise.all([
        failure.kind === 'dead'
          ? this.settle.end([{ message: row, status: 'dead', error: failure.error, counted }], tx)
          : this.settle.putBack(
              [{ message: row, error: failure.error, counted: failure.kind === 'retry' }],
              tx,
            ),
        keyWaits ? this.settle.putBack(uncounted(behind), tx) : undefined,
        keyWaits ? this.queue.lanes.hold([holdFor(row, failure)], tx) : undefined,
      ]);
    });
    if (settled.length > 0) this.report(row, failure, reason);
    return keyWaits || settled.length === 0;
  }

  /** Puts them back behind the hold of their key. */
  private async keepWaiting(lease: Lease, rows: readonly ClaimedMessage[]): Promise<void> {
    await this.transaction.settleOnly(lease, rows, (tx, remaining) =>
      this.settle.putBack(uncounted(remaining), tx),
    );
  }

  private report(row: ClaimedMessage, failure: Failure, error: unknown): void {
    this.metrics.failed(failure);
    const { id, type, key, attempt } = row;
    const level = failure.kind === 'dead' ? 'error' : failure.kind === 'retry' ? 'warn' : 'info';
    this.log[level](
      {
        event: `inbox.${failure.kind}`,
        id,
        type,
        key,
        attempt,
        ...('afterMs' in failure ? { retryInMs: failure.afterMs } : {}),
        error,
      },
      failure.kind === 'dead' ? 'a message became a dead letter' : 'a message will be retried',
    );
  }
}

function uncounted(rows: readonly ClaimedMessage[]) {
  return rows.map((message) => ({ message, counted: false }));
}

function holdFor(row: ClaimedMessage, failure: Failure) {
  if (failure.kind === 'dead') {
    return { key: row.key, lane: row.lane, forMs: undefined, reason: 'dead-letter' as const };
  }
  return { key: row.key, lane: row.lane, forMs: failure.afterMs, reason: failure.kind };
}
