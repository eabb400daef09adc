import { Inject, Injectable } from '@nestjs/common';
import { ScheduledJobs } from '../../clock/scheduled-jobs.ts';
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
import { ActivityStore } from '../activity/activity-store.ts';
import { type Archivable, Archiving } from './archiving.ts';
import {
  GIVE_UP,
  REMOVE_ACTION_ITEMS,
  REMOVE_ACTIONS,
  REMOVE_DELIVERIES,
  REMOVE_MESSAGES,
  REMOVE_PRODUCERS,
  REMOVE_REPLAY_DELIVERIES,
  REMOVE_REPLAYS,
} from './retention.sql.ts';
import {
  payloadStep,
  ROWS_PER_STEP,
  removeInSteps,
  retentionStep,
  type SweepContext,
} from './retention-step.ts';
import { TopicRetention } from './topic-retention.ts';

const INTERVAL_MS = 60_000;
/**
 * Every 60th sweep scans from the first row. The others start at the first row that was too young for any retention when
 * the last sweep saw it: a type that is kept for minutes must not cause a scan past a week of other rows every minute. A
 * row that settled long after it arrived is removed by the next full scan.
 */
const SWEEPS_PER_FULL_SCAN = 60;

type Stage = 'inbox' | 'outbox';
type Place = readonly [lane: number, position: number];

const UNINTERRUPTED: SweepContext = { signal: new AbortController().signal, progressed: () => undefined };

interface Step {
  readonly removed: number;
  readonly seen: number;
  readonly last: number;
  /** The lanes and keys of removed dead letters. */
  readonly dead: readonly (readonly [lane: number, key: string])[];
  readonly given_up: readonly Place[];
  /** Of the inbox: what is to be moved to history. */
  readonly archivable?: readonly Archivable[];
  readonly first_young: number | null;
  readonly young: boolean;
}

/** Removes settled rows after their retention, which depends on status, type and queue. */
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
    private readonly topics: TopicRetention,
    private readonly activity: ActivityStore,
    private readonly archiving: Archiving,
    jobs: ScheduledJobs,
    metrics: Metrics,
  ) {
    jobs.add({
      role: 'upkeep',
      name: 'retention',
      intervalMs: INTERVAL_MS,
      runAtStart: false,
      run: (signal, progressed) => this.run({ signal, progressed }),
    });
    this.removed = metrics.counter('retention_removed_total', 'Rows removed after their retention.', [
      'stage',
    ]);
    this.givenUp = metrics.counterOf(
      'retention_given_up_total',
      'Messages and deliveries that were never handled within RETENTION_WAITING and were given up.',
      'stage',
      ['inbox', 'outbox'],
    );
    this.failed = metrics.counter('retention_failed_total', 'Failed sweeps; each is retried.');
  }

  private async run(context: SweepContext): Promise<void> {
    try {
      await this.sweep(context);
    } catch (error) {
      this.failed.inc();
      throw error;
    }
  }

  /** Messages come last, because a message is kept as long as its deliveries and its entries in topics. */
  async sweep(context: SweepContext = UNINTERRUPTED): Promise<void> {
    const { retentionFinished, retentionDead, retentionWaiting, retentionExpired, retentionSuperseded } =
      this.settings;
    const { retentionTypes, retentionDeadQueues, retentionAudit } = this.settings;
    const isFullScan = this.sweeps++ % SWEEPS_PER_FULL_SCAN === 0;
    this.archiving.startSweep();
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
    await this.topics.sweep(context, (removed) => this.removed.inc({ stage: 'topics' }, removed));
    await this.scan(context, 'inbox', REMOVE_MESSAGES, [
      ...[...types, retentionFinished, inboxDead, retentionWaiting, shortest],
      ...[retentionExpired, retentionSuperseded, this.archiving.likePatterns],
    ]);
    await removeInSteps(context, (maxRows) => this.audit.remove(retentionAudit, maxRows));
    await removeInSteps(context, (maxRows) => this.activity.remove(maxRows));
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
      const archived = await this.archiving.archive(step.archivable ?? [], context);
      this.removed.inc({ stage }, archived);
      context.progressed();
      if (context.signal.aborted || step.young || step.seen < ROWS_PER_STEP) return;
      if (!foundYoung) this.scannedUpTo[stage] = step.first_young === null ? step.last : step.first_young - 1;
      foundYoung ||= step.first_young !== null;
      after = step.last;
    }
  }

  /** Undefined if another replica is sweeping. */
  private step(stage: Stage, sql: string, values: readonly unknown[]): Promise<Step | undefined> {
    const inStep = stage === 'inbox' ? payloadStep : retentionStep;
    return inStep(this.database, async (tx) => {
      void tx.query(FORCE_INDEX_PLANS);
      const [row] = await tx.query<Step>(sql, values);
      await this.endHolds(stage, row!.dead, tx);
      return row!;
    });
  }

  /** Nothing waits behind the removed dead letters, so a hold ends with the last dead letter it exists for. */
  private async endHolds(stage: Stage, dead: Step['dead'], tx: Transaction): Promise<void> {
    const endings = byLane(dead).map(([lane, keys]) => endDeadLetterHolds(tx, { stage, lane }, keys));
    await Promise.all(endings);
  }

  /** Ends what was not handled within RETENTION_WAITING. It is logged, counted and can still be found. */
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
    await removeInSteps(context, (maxRows) => this.database.execute(removeItems, [olderThanMs, maxRows]));
    await this.database.execute(removeParents, [olderThanMs]);
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
