import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Refuse } from '../../contract/outcomes.ts';
import { Database } from '../../database/database.ts';
import { groupBy } from '../../database/group-by.ts';
import type { Lease } from '../../lanes/lease.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import { ApplyFailed, hungWithoutQuery } from '../denormalizers/denormalizer-runner.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';
import type { Batch } from './batch.ts';
import { decide, type Failure } from './decide.ts';
import { InboxQueue } from './inbox-queue.ts';
import { InboxTransaction } from './inbox-transaction.ts';
import { inParts, isLoaded, withPayloads } from './payloads.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { halves, separateFailed } from './separate-failed.ts';
import { SettleStore } from './settle-store.ts';
import { Triage } from './triage.ts';

/** How far a batch has got. */
interface BatchProgress extends Batch {
  /** Keys that wait now: what comes later of them waits too. */
  readonly waiting: Set<string>;
  /** Those that failed alone. */
  readonly failed: Set<ClaimedMessage>;
}

/** A claim beyond the last attempt: it was not tried again, so it is not charged again. */
class ReplicaDied extends Refuse {}

/** Takes a batch to its end: applied together if that goes well, else in parts, so that only the guilty are charged. */
@Injectable()
export class InboxProcessor {
  private readonly maxAttempts: number;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: InboxQueue,
    private readonly denormalizers: Denormalizers,
    private readonly sieve: Triage,
    private readonly transaction: InboxTransaction,
    private readonly settle: SettleStore,
    private readonly metrics: ProcessingMetrics,
  ) {
    this.maxAttempts = settings.inboxRetrySchedule.length + 1;
  }

  /** Ends every message of the batch in one way or another. Throws only what is nobody's fault. */
  async process(batch: Batch): Promise<void> {
    await this.handle({
      ...batch,
      messages: await this.sieve.endLateAndSuperseded(batch.lease, batch.messages),
    });
  }

  async handle(batch: Batch): Promise<void> {
    const course = { ...batch, waiting: new Set<string>(), failed: new Set<ClaimedMessage>() };
    if (batch.messages.every(isLoaded)) return this.run(course, batch.messages, []);
    const parts = inParts(batch.messages);
    for (const part of parts) await this.handlePart(course, part, parts.length === 1);
  }

  /** As much as may be in memory; what is behind a failure in an earlier part waits with its key. */
  private async handlePart(
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
    await this.run({ ...batch, prepared, messages: isAll ? rows : batch.messages }, rows, []);
  }

  /**
   * Applies them together. If that fails, those who failed are tried alone, after those it does not concern; `behind`
   * are later messages of the key of a message that is tried alone. A statement that fails hides what the others would
   * have done, so there may be more: from the second failure on, the rest is tried in halves. Earlier messages of a key
   * are among the rest: when one of them then fails too, those behind it do not overtake it.
   */
  private async run(
    batch: BatchProgress,
    rows: readonly ClaimedMessage[],
    behind: readonly ClaimedMessage[],
    { failures = 0, known }: { failures?: number; known?: ApplyFailed | undefined } = {},
  ): Promise<void> {
    if (rows.length === 0) return;
    const failed = known ?? this.knownFailure(batch, rows) ?? (await this.transaction.apply(batch, rows));
    batch.progressed?.();
    if (!failed) return this.run(batch, behind, []);
    await this.keepLease(batch.lease);
    if (rows.length === 1) return this.failAlone(batch, rows[0]!, failed, behind);
    if (failed.failed.length === 0) return this.oneByOne(batch, rows);
    const { others, alone } = separateFailed(rows, failed.failed);
    const parts = failures > 0 ? halves(others) : [others];
    for (const part of parts) await this.run(batch, part, [], { failures: failures + 1 });
    await this.eachAlone(batch, alone, failed);
  }

  /** What is known to fail is not tried. */
  private knownFailure({ prepared }: Batch, rows: readonly ClaimedMessage[]): ApplyFailed | undefined {
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

  /** What did not end may have taken most of it. */
  private async keepLease(lease: Lease): Promise<void> {
    if (performance.now() >= lease.renewAtMs) await this.queue.lanes.renew(lease);
  }

  private async oneByOne(batch: BatchProgress, rows: readonly ClaimedMessage[]): Promise<void> {
    for (const [first, ...rest] of groupBy(rows, ({ key }) => key)) {
      await this.run(batch, [first!], rest);
    }
  }

  private async eachAlone(
    batch: BatchProgress,
    alone: readonly ClaimedMessage[][],
    failed: ApplyFailed,
  ): Promise<void> {
    let hung: ApplyFailed | undefined;
    for (const [guilty, ...after] of alone) {
      if (batch.waiting.has(guilty!.key)) await this.keepWaiting(batch.lease, [guilty!, ...after]);
      else await this.run(batch, [guilty!], after, { known: hung });
      // Alone, too: so do the others that asked for nothing, and each would take as long again to show it.
      if (hungWithoutQuery(failed.reason) && batch.failed.has(guilty!)) hung = failed;
    }
  }

  private async failAlone(
    batch: BatchProgress,
    row: ClaimedMessage,
    { reason }: ApplyFailed,
    behind: readonly ClaimedMessage[],
  ): Promise<void> {
    batch.failed.add(row);
    const keyWaits = await this.fail(batch.lease, row, reason, behind);
    if (!keyWaits) return this.run(batch, behind, []);
    batch.waiting.add(row.key);
  }

  /** Answers whether the key waits now: then those behind it are put back too, uncharged. */
  private async fail(
    lease: Lease,
    row: ClaimedMessage,
    reason: unknown,
    behind: readonly ClaimedMessage[],
  ): Promise<boolean> {
    const failure = decide(reason, row.attempt, this.settings.inboxRetrySchedule);
    const holds = this.settings.inboxOnDead === 'hold' && !row.keyless;
    const keyWaits = failure.kind !== 'dead' || holds;
    const charged = !(reason instanceof ReplicaDied);
    const settled = await this.transaction.fenced(lease, [row, ...behind], async (tx) => {
      await Promise.all([
        failure.kind === 'dead'
          ? this.settle.end([{ message: row, status: 'dead', error: failure.error, charged }], tx)
          : this.settle.putBack(
              [{ message: row, error: failure.error, charged: failure.kind === 'retry' }],
              tx,
            ),
        keyWaits ? this.settle.putBack(uncharged(behind), tx) : undefined,
        keyWaits ? this.queue.lanes.hold([holdFor(row, failure)], tx) : undefined,
      ]);
    });
    if (settled.length > 0) this.report(row, failure, reason);
    return keyWaits || settled.length === 0;
  }

  /** Behind the hold of their key. */
  private async keepWaiting(lease: Lease, rows: readonly ClaimedMessage[]): Promise<void> {
    await this.transaction.fenced(lease, rows, (tx, mine) => this.settle.putBack(uncharged(mine), tx));
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
      failure.kind === 'dead' ? 'a message became a dead letter' : 'a message is tried again later',
    );
  }
}

function uncharged(rows: readonly ClaimedMessage[]) {
  return rows.map((message) => ({ message, charged: false }));
}

function holdFor(row: ClaimedMessage, failure: Failure) {
  if (failure.kind === 'dead') {
    return { key: row.key, lane: row.lane, forMs: undefined, reason: 'dead-letter' as const };
  }
  return { key: row.key, lane: row.lane, forMs: failure.afterMs, reason: failure.kind };
}
