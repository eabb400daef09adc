import { Inject, Injectable } from '@nestjs/common';
import { formatDuration } from '../../config/duration.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import type { Transaction } from '../../database/transaction.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import { endDeadLetterHolds, lockLane } from '../../lanes/requeue-holds.ts';
import { likeOf } from '../../listeners/type-patterns.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { ScheduledJobs } from '../scheduled-jobs.ts';
import {
  GIVE_UP,
  REMOVE_ACTION_ITEMS,
  REMOVE_ACTIONS,
  REMOVE_DELIVERIES,
  REMOVE_MESSAGES,
  REMOVE_PRODUCERS,
  REMOVE_REPLAY_DELIVERIES,
  REMOVE_REPLAYS,
  TRY_RETENTION_LOCK,
} from './retention.sql.ts';

const INTERVAL_MS = 60_000;
/** Keeps transactions short: a step takes milliseconds, and nothing waits for it. */
const ROWS_PER_STEP = 2_000;
/**
 * Every 60th sweep scans from the first row. The others start at the first row that was too young for any retention when
 * the last sweep saw it: a type that is kept for minutes must not cause a scan past a week of other rows every minute. A
 * row that settled long after it arrived is removed by the next full scan.
 */
const SWEEPS_PER_FULL_SCAN = 60;

type Stage = 'inbox' | 'outbox';
type Place = readonly [lane: number, position: number];

/** Tells a sweep when to stop early, and lets it report progress. */
interface SweepContext {
  readonly signal: AbortSignal;
  readonly progressed: () => void;
}

const UNINTERRUPTED: SweepContext = { signal: new AbortController().signal, progressed: () => undefined };

interface Step {
  readonly removed: number;
  readonly seen: number;
  readonly last: number;
  /** The lanes and keys of removed dead letters. */
  readonly dead: readonly (readonly [lane: number, key: string])[];
  readonly given_up: readonly Place[];
  readonly first_young: number | null;
  readonly young: boolean;
}

/** A10, A11: removes settled rows after their retention, which depends on status, type and queue. */
@Injectable()
export class Retention {
  private readonly removed;
  private readonly givenUp;
  private readonly failed;
  private sweeps = 0;
  private readonly scannedUpTo: Record<Stage, number> = { inbox: 0, outbox: 0 };

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly audit: AuditLog,
    jobs: ScheduledJobs,
    metrics: Metrics,
  ) {
    jobs.add({
      name: 'retention',
      intervalMs: INTERVAL_MS,
      runAtStart: false,
      run: (signal, progressed) => this.run({ signal, progressed }),
    });
    this.removed = metrics.counter({
      name: 'retention_removed_total',
      help: 'Rows removed after their retention.',
      labelNames: ['stage'],
    });
    this.givenUp = metrics.counter({
      name: 'retention_given_up_total',
      help: 'Messages and deliveries that were never handled within RETENTION_WAITING and were given up.',
      labelNames: ['stage'],
    });
    // Present from the start: an increase from no value at all is not visible to rate().
    for (const stage of ['inbox', 'outbox']) this.givenUp.inc({ stage }, 0);
    this.failed = metrics.counter({
      name: 'retention_failed_total',
      help: 'Failed sweeps; each is retried.',
    });
  }

  private async run(context: SweepContext): Promise<void> {
    try {
      await this.sweep(context);
    } catch (error) {
      this.failed.inc();
      throw error;
    }
  }

  /** Removes deliveries first, because a message is kept as long as its deliveries. */
  async sweep(context: SweepContext = UNINTERRUPTED): Promise<void> {
    const { retentionFinished, retentionDead, retentionWaiting, retentionExpired, retentionSuperseded } =
      this.settings;
    const { retentionTypes, retentionDeadQueues, retentionAudit } = this.settings;
    const isFullScan = this.sweeps++ % SWEEPS_PER_FULL_SCAN === 0;
    if (isFullScan) Object.assign(this.scannedUpTo, { inbox: 0, outbox: 0 });
    const types = [retentionTypes.map(({ name }) => likeOf(name)), retentionTypes.map(({ ms }) => ms)];
    const shortest = Math.min(
      ...[retentionFinished, retentionDead, retentionWaiting, retentionExpired, retentionSuperseded],
      ...[...retentionTypes, ...retentionDeadQueues].map(({ ms }) => ms),
    );
    const inboxDead = retentionDeadQueues.find(({ name }) => name === 'inbox')?.ms ?? retentionDead;
    await this.scan(context, 'outbox', REMOVE_DELIVERIES, [
      ...[...types, retentionFinished, retentionDead, retentionWaiting, shortest],
      ...[retentionDeadQueues.map(({ name }) => name), retentionDeadQueues.map(({ ms }) => ms)],
    ]);
    await this.scan(context, 'inbox', REMOVE_MESSAGES, [
      ...[...types, retentionFinished, inboxDead, retentionWaiting, shortest],
      ...[retentionExpired, retentionSuperseded],
    ]);
    await this.removeAll(context, (maxRows) => this.audit.remove(retentionAudit, maxRows));
    const actionRetention = Math.max(
      retentionAudit,
      retentionDead,
      ...retentionDeadQueues.map(({ ms }) => ms),
    );
    await this.removeWithItems(context, REMOVE_ACTION_ITEMS, REMOVE_ACTIONS, actionRetention);
    await this.removeWithItems(context, REMOVE_REPLAY_DELIVERIES, REMOVE_REPLAYS, actionRetention);
    if (isFullScan) await this.removeProducers(context);
  }

  private async scan(
    context: SweepContext,
    stage: Stage,
    sql: string,
    values: readonly unknown[],
  ): Promise<void> {
    let after = this.scannedUpTo[stage];
    for (let foundYoung = false; ; ) {
      const step = await this.step(stage, sql, [after, ROWS_PER_STEP, ...values]);
      if (!step) return;
      this.removed.inc({ stage }, step.removed);
      await this.giveUp(stage, step.given_up);
      context.progressed();
      if (context.signal.aborted || step.young || step.seen < ROWS_PER_STEP) return;
      if (!foundYoung) this.scannedUpTo[stage] = step.first_young === null ? step.last : step.first_young - 1;
      foundYoung ||= step.first_young !== null;
      after = step.last;
    }
  }

  /** Undefined if another replica is sweeping. */
  private step(stage: Stage, sql: string, values: readonly unknown[]): Promise<Step | undefined> {
    return this.database.transaction(async (tx) => {
      const [lock] = await tx.query<{ mine: boolean }>(TRY_RETENTION_LOCK);
      if (!lock?.mine) return undefined;
      const [row] = await tx.query<Step>(sql, values);
      await this.endHolds(stage, row!.dead, tx);
      return row;
    });
  }

  /** Nothing waits behind the removed dead letters, so a hold ends with the last dead letter it exists for. */
  private async endHolds(stage: Stage, dead: Step['dead'], tx: Transaction): Promise<void> {
    if (dead.length > 0) void tx.query(FORCE_INDEX_PLANS);
    const endings = byLane(dead).map(([lane, keys]) => endDeadLetterHolds(tx, { stage, lane }, keys));
    await Promise.all(endings);
  }

  /** A11: ends what was not handled within RETENTION_WAITING. It is logged, counted and can still be found. */
  private async giveUp(stage: Stage, places: readonly Place[]): Promise<void> {
    const after = formatDuration(this.settings.retentionWaiting);
    for (const [lane, positions] of byLane(places)) {
      const ended = await this.database.transaction(async (tx) => {
        // While the lane is locked no replica can claim its rows.
        await lockLane(tx, { stage, lane });
        return tx.execute(GIVE_UP[stage], [positions, after]);
      });
      if (ended === 0) continue;
      this.givenUp.inc({ stage }, ended);
      this.log.warn(
        { event: 'retention.given-up', stage, count: ended, after },
        'gave up messages or deliveries that were never handled',
      );
    }
  }

  private async removeProducers({ signal, progressed }: SweepContext): Promise<void> {
    let after = { source: '', id: '' };
    while (!signal.aborted) {
      const values = [after.source, after.id, ROWS_PER_STEP, this.settings.retentionProducers];
      const [, rows] = await this.database.inOneRoundTrip([[FORCE_INDEX_PLANS], [REMOVE_PRODUCERS, values]]);
      const [step] = rows as [{ removed: number; source: string; id: string }?];
      if (!step) return;
      this.removed.inc({ stage: 'producers' }, step.removed);
      progressed();
      after = step;
    }
  }

  /** Removes the items first, then every parent row without items. */
  private async removeWithItems(
    context: SweepContext,
    removeItems: string,
    removeParents: string,
    olderThanMs: number,
  ): Promise<void> {
    await this.removeAll(context, (maxRows) => this.database.execute(removeItems, [olderThanMs, maxRows]));
    await this.database.execute(removeParents, [olderThanMs]);
  }

  /** Removes in steps until nothing is left. */
  private async removeAll(
    { signal, progressed }: SweepContext,
    removeSome: (maxRows: number) => Promise<number>,
  ): Promise<void> {
    while (!signal.aborted && (await removeSome(ROWS_PER_STEP)) === ROWS_PER_STEP) progressed();
  }
}

function byLane<Item>(places: readonly (readonly [lane: number, item: Item])[]): [number, Item[]][] {
  const lanes = new Map<number, Item[]>();
  for (const [lane, item] of places) {
    const items = lanes.get(lane);
    if (items) items.push(item);
    else lanes.set(lane, [item]);
  }
  return [...lanes];
}
