import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Refuse } from '../../contract/outcomes.ts';
import { Database } from '../../database/database.ts';
import { isConflictOfTransactions, isDatabaseAway, isOurDatabaseAway } from '../../database/faults.ts';
import type { Transaction } from '../../database/transaction.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { LeaseLost, type Tenure } from '../../lanes/tenure.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { FanOut } from '../../outbox/fan-out.ts';
import { type Deliveries, ListenersChanged } from '../../outbox/fan-out-deliveries.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';
import { ApplyFailed, type Bound, Effects, isIdle, type Prepared } from '../denormalizers/effects.ts';
import { IngestStore } from '../ingest-store.ts';
import { byKey } from './by-key.ts';
import type { ClaimedMessage } from './claimed-message.ts';
import { decide, type Failure } from './decide.ts';
import { InboxQueue } from './inbox-queue.ts';
import { inParts, isLoaded, withPayloads } from './payloads.ts';
import { ProcessingMetrics } from './processing-metrics.ts';
import { ReadModelTx } from './read-model-tx.ts';
import { SettledByOthers, SettleStore, type SlotWanted, TOO_LATE } from './settle-store.ts';
import { type Sifted, sift, slotName } from './sift.ts';
import { halves, split } from './split.ts';
import { Unhandled } from './unhandled.ts';

/** Messages claimed together, from lanes held under one token. */
export interface Batch {
  readonly tenure: Tenure;
  readonly messages: readonly ClaimedMessage[];
  readonly prepared: Prepared;
  /** They are all there is in these lanes: if they go well, the lanes are released with the same transaction. */
  readonly last?: boolean;
  /** Told after each transaction: a batch that fails is gone through one by one, and that can take long. */
  readonly progressed?: () => void;
}

/** How far a batch has got. */
interface Course extends Batch {
  /** Keys that wait now: what comes later of them waits too. */
  readonly waiting: Set<string>;
}

const CONFLICT_RETRIES = 3;

/** A claim beyond the last attempt: it was not tried again, so it is not charged again. */
class ReplicaDied extends Refuse {}

/** D4: denormalizers, fan-out, finished — in one transaction, all or nothing. */
@Injectable()
export class InboxProcessor {
  private readonly mostAttempts: number;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly queue: InboxQueue,
    private readonly denormalizers: Denormalizers,
    private readonly effects: Effects,
    private readonly fanOut: FanOut,
    private readonly settle: SettleStore,
    private readonly ingest: IngestStore,
    private readonly wakeups: Wakeups,
    private readonly metrics: ProcessingMetrics,
    private readonly laneMetrics: LaneMetrics,
    private readonly unhandled: Unhandled,
  ) {
    this.mostAttempts = settings.inboxRetrySchedule.length + 1;
  }

  /** Ends every message of the batch in one way or another. Throws only what is nobody's fault. */
  async process(batch: Batch): Promise<void> {
    await this.handle({ ...batch, messages: await this.sifted(batch.tenure, batch.messages) });
  }

  /** Ends what is late or superseded; answers with the rest, in the order it is to be handled. */
  async sifted(tenure: Tenure, messages: readonly ClaimedMessage[]): Promise<readonly ClaimedMessage[]> {
    const sifted = await this.sift(messages);
    await this.lapseSifted(tenure, sifted);
    return sifted.ready;
  }

  /** Ends what became late since; answers with the rest. */
  async inTime(tenure: Tenure, messages: readonly ClaimedMessage[]): Promise<readonly ClaimedMessage[]> {
    const expired = await this.settle.late(messages);
    if (expired.length === 0) return messages;
    await this.lapseSifted(tenure, { ready: [], expired, superseded: [] });
    return messages.filter((message) => !expired.includes(message));
  }

  async handle(batch: Batch): Promise<void> {
    const course = { ...batch, waiting: new Set<string>() };
    if (batch.messages.every(isLoaded)) return this.run(course, batch.messages, []);
    const parts = inParts(batch.messages);
    for (const part of parts) await this.handlePart(course, part, parts.length === 1);
  }

  /** As much as may be in memory; what is behind a failure in an earlier part waits with its key. */
  private async handlePart(batch: Course, part: readonly ClaimedMessage[], isAll: boolean): Promise<void> {
    await this.keepWaiting(
      batch.tenure,
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
    batch: Course,
    rows: readonly ClaimedMessage[],
    behind: readonly ClaimedMessage[],
    { failures = 0, known }: { failures?: number; known?: ApplyFailed | undefined } = {},
  ): Promise<void> {
    if (rows.length === 0) return;
    const failed = known ?? (await this.together(batch, rows));
    batch.progressed?.();
    if (!failed) return this.run(batch, behind, []);
    await this.keepLease(batch.tenure);
    if (rows.length === 1) {
      const keyWaits = await this.fail(batch.tenure, rows[0]!, failed.reason, behind);
      if (!keyWaits) return this.run(batch, behind, []);
      batch.waiting.add(rows[0]!.key);
      return;
    }
    if (failed.guilty.length === 0) return this.oneByOne(batch, rows);
    const { others, alone } = split(rows, failed.guilty);
    const parts = failures > 0 ? halves(others) : [others];
    for (const part of parts) await this.run(batch, part, [], { failures: failures + 1 });
    let hung: ApplyFailed | undefined;
    for (const [guilty, ...after] of alone) {
      if (batch.waiting.has(guilty!.key)) await this.keepWaiting(batch.tenure, [guilty!, ...after]);
      else await this.run(batch, [guilty!], after, { known: hung });
      // Alone, too: so do the others that asked for nothing, and each would take as long again to show it.
      if (isIdle(failed.reason) && batch.waiting.has(guilty!.key)) hung = failed;
    }
  }

  private async oneByOne(batch: Course, rows: readonly ClaimedMessage[]): Promise<void> {
    for (const [first, ...rest] of byKey(rows, ({ key }) => key)) {
      await this.run(batch, [first!], rest);
    }
  }

  /** What did not end may have taken most of it. */
  private async keepLease(tenure: Tenure): Promise<void> {
    if (performance.now() >= tenure.renewAtMs) await this.queue.lanes.renew(tenure);
  }

  /** Undefined: done. Messages of lanes that were lost are somebody else's now: done as well. */
  private async together(batch: Batch, rows: readonly ClaimedMessage[]): Promise<ApplyFailed | undefined> {
    const known = this.knownFailure(batch, rows);
    if (known) return known;
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

  /** What is known to fail is not tried. */
  private knownFailure({ prepared }: Batch, rows: readonly ClaimedMessage[]): ApplyFailed | undefined {
    for (const row of rows) {
      if (row.attempt > this.mostAttempts) {
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
        deliveries.write(tx),
        readModelTx.storeSent(this.ingest),
        this.settle.finish(rows, tx),
        this.queue.lanes.releaseIn(tx, tenure, released),
        deliveries.takeAlong(tx),
      ]);
      return readModelTx.sent;
    });
  }

  /** Answers whether the key waits now: then those behind it are put back too, uncharged. */
  private async fail(
    tenure: Tenure,
    row: ClaimedMessage,
    reason: unknown,
    behind: readonly ClaimedMessage[],
  ): Promise<boolean> {
    const failure = decide(reason, row.attempt, this.settings.inboxRetrySchedule);
    const keyWaits = failure.kind !== 'dead' || this.settings.inboxOnDead === 'hold';
    const charged = !(reason instanceof ReplicaDied);
    const settled = await this.fenced(tenure, [row, ...behind], async (tx) => {
      await Promise.all([
        failure.kind === 'dead'
          ? this.settle.lapse([{ message: row, status: 'dead', error: failure.error, charged }], tx)
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
  private async keepWaiting(tenure: Tenure, rows: readonly ClaimedMessage[]): Promise<void> {
    await this.fenced(tenure, rows, (tx, mine) => this.settle.putBack(uncharged(mine), tx));
  }

  private async lapseSifted(tenure: Tenure, { expired, superseded }: Sifted): Promise<void> {
    const lapses = [
      ...expired.map((message) => ({
        message,
        status: 'expired' as const,
        error: TOO_LATE,
        charged: false,
      })),
      ...superseded.map(({ message, by }) => ({
        message,
        status: 'superseded' as const,
        by,
        charged: false,
      })),
    ];
    const messages = lapses.map(({ message }) => message);
    const settled = new Set(
      await this.fenced(tenure, messages, (tx, mine) =>
        this.settle.lapse(
          lapses.filter(({ message }) => mine.includes(message)),
          tx,
        ),
      ),
    );
    this.metrics.lapsed(lapses.filter(({ message }) => settled.has(message)));
  }

  /** A transaction that only settles, and what it settled: not what was lost meanwhile. */
  private async fenced(
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

  private async sift(messages: readonly ClaimedMessage[]): Promise<Sifted> {
    const slots = new Map<string, SlotWanted>();
    for (const { type, key } of messages) {
      const slot = this.denormalizers.slotOf(type);
      if (slot === undefined || slots.has(slotName(key, slot))) continue;
      slots.set(slotName(key, slot), { key, slot, types: this.denormalizers.typesOfSlot(slot) });
    }
    const last = slots.size ? await this.settle.lastOfSlots([...slots.values()]) : [];
    return sift(messages, {
      slotOf: (type) => this.denormalizers.slotOf(type),
      rankOf: (type) => this.denormalizers.rankOf(type),
      lastOf: new Map(last.map(({ key, slot, position }) => [slotName(key, slot), position])),
    });
  }

  private lost(tenure: Tenure, lanes: readonly number[]): void {
    this.queue.lanes.lose(tenure, lanes);
    this.laneMetrics.fencedWrite('inbox');
    this.log.warn(
      { event: 'inbox.lease-lost', lanes },
      'another replica took over; nothing of this work took effect',
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

function lanesOf(rows: readonly ClaimedMessage[]): number[] {
  return [...new Set(rows.map(({ lane }) => lane))];
}

function reasonOf(error: unknown): unknown {
  return error instanceof ApplyFailed ? error.reason : error;
}

function isAway(error: unknown): boolean {
  return error instanceof ApplyFailed ? isOurDatabaseAway(error.reason) : isDatabaseAway(error);
}
