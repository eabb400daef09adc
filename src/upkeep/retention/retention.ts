import { Inject, Injectable } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
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
import {
  GIVE_UP,
  REMOVE_DELIVERIES,
  REMOVE_MESSAGES,
  REMOVE_PRODUCERS,
  REMOVE_REPLAY_DELIVERIES,
  REMOVE_REPLAYS,
  REMOVE_RULING_ITEMS,
  REMOVE_RULINGS,
  TRY_RETENTION_LOCK,
} from './retention.sql.ts';

const EVERY_MS = 60_000;
/** Short transactions: a stretch takes milliseconds, and nobody waits for it. */
const STRETCH = 2_000;
/**
 * Every so often the walk begins at the beginning; in between, with the first that was too young for any retention when the
 * last one met it: a type that is kept for minutes must not mean a walk past a week of others every minute. What ended
 * long after it came goes with the next walk from the beginning.
 */
const SWEEPS_PER_WALK = 60;

type Stage = 'inbox' | 'outbox';
type Place = readonly [lane: number, position: number];

/** When a sweep is to end early, and whom it tells that it gets on. */
interface SweepContext {
  readonly signal: AbortSignal;
  readonly progressed: () => void;
}

const WITHOUT_END: SweepContext = { signal: new AbortController().signal, progressed: () => undefined };

interface Step {
  readonly removed: number;
  readonly seen: number;
  readonly last: number;
  /** Where dead letters were removed. */
  readonly dead: readonly (readonly [lane: number, key: string])[];
  readonly given_up: readonly Place[];
  readonly first_young: number | null;
  readonly young: boolean;
}

/** A10, A11: removes what ended long enough ago, each status, type and queue after its own time. */
@Injectable()
export class Retention {
  private readonly loop: Loop;
  private readonly removed;
  private readonly givenUp;
  private readonly failed;
  private due = false;
  private sweeps = 0;
  private readonly lookedUpTo: Record<Stage, number> = { inbox: 0, outbox: 0 };

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly audit: AuditLog,
    loops: Loops,
    metrics: Metrics,
  ) {
    this.loop = loops.run('upkeep', 'retention', EVERY_MS, (...pass) => this.pass(...pass));
    this.removed = metrics.counter({
      name: 'retention_removed_total',
      help: 'Rows removed because their retention was over.',
      labelNames: ['stage'],
    });
    this.givenUp = metrics.counter({
      name: 'retention_given_up_total',
      help: 'Messages and deliveries that were never handled and ended because they waited for too long.',
      labelNames: ['stage'],
    });
    // There from the start: an increase from nothing is not seen.
    for (const stage of ['inbox', 'outbox']) this.givenUp.inc({ stage }, 0);
    this.failed = metrics.counter({
      name: 'retention_failed_total',
      help: 'Sweeps that failed; they are tried again.',
    });
  }

  @Interval(EVERY_MS)
  tick(): void {
    this.due = true;
    this.loop.wake();
  }

  /** A sweep may take longer than the interval: the next one follows it. One that failed stays due. */
  private async pass(signal: AbortSignal, progressed: () => void): Promise<Next> {
    if (!this.due) return 'idle';
    try {
      await this.sweep({ signal, progressed });
    } catch (error) {
      this.failed.inc();
      throw error;
    }
    this.due = false;
    return 'idle';
  }

  /** Deliveries first: a message goes when its deliveries are gone. */
  async sweep(course: SweepContext = WITHOUT_END): Promise<void> {
    const { retentionFinished, retentionDead, retentionWaiting, retentionExpired, retentionSuperseded } =
      this.settings;
    const { retentionTypes, retentionDeadQueues, retentionAudit } = this.settings;
    const fromTheBeginning = this.sweeps++ % SWEEPS_PER_WALK === 0;
    if (fromTheBeginning) Object.assign(this.lookedUpTo, { inbox: 0, outbox: 0 });
    const types = [retentionTypes.map(({ name }) => likeOf(name)), retentionTypes.map(({ ms }) => ms)];
    const shortest = Math.min(
      ...[retentionFinished, retentionDead, retentionWaiting, retentionExpired, retentionSuperseded],
      ...[...retentionTypes, ...retentionDeadQueues].map(({ ms }) => ms),
    );
    const ofInbox = retentionDeadQueues.find(({ name }) => name === 'inbox')?.ms ?? retentionDead;
    await this.walk(course, 'outbox', REMOVE_DELIVERIES, [
      ...[...types, retentionFinished, retentionDead, retentionWaiting, shortest],
      ...[retentionDeadQueues.map(({ name }) => name), retentionDeadQueues.map(({ ms }) => ms)],
    ]);
    await this.walk(course, 'inbox', REMOVE_MESSAGES, [
      ...[...types, retentionFinished, ofInbox, retentionWaiting, shortest],
      ...[retentionExpired, retentionSuperseded],
    ]);
    await this.removeAll(course, (most) => this.audit.remove(retentionAudit, most));
    const decided = Math.max(retentionAudit, retentionDead, ...retentionDeadQueues.map(({ ms }) => ms));
    await this.removeWithItems(course, REMOVE_RULING_ITEMS, REMOVE_RULINGS, decided);
    await this.removeWithItems(course, REMOVE_REPLAY_DELIVERIES, REMOVE_REPLAYS, decided);
    if (fromTheBeginning) await this.removeProducers(course);
  }

  private async walk(
    course: SweepContext,
    stage: Stage,
    sql: string,
    values: readonly unknown[],
  ): Promise<void> {
    let after = this.lookedUpTo[stage];
    for (let metYoung = false; ; ) {
      const step = await this.step(stage, sql, [after, STRETCH, ...values]);
      if (!step) return;
      this.removed.inc({ stage }, step.removed);
      await this.giveUp(stage, step.given_up);
      course.progressed();
      if (course.signal.aborted || step.young || step.seen < STRETCH) return;
      if (!metYoung) this.lookedUpTo[stage] = step.first_young === null ? step.last : step.first_young - 1;
      metYoung ||= step.first_young !== null;
      after = step.last;
    }
  }

  /** Undefined: another replica sweeps. */
  private step(stage: Stage, sql: string, values: readonly unknown[]): Promise<Step | undefined> {
    return this.database.transaction(async (tx) => {
      const [broom] = await tx.query<{ mine: boolean }>(TRY_RETENTION_LOCK);
      if (!broom?.mine) return undefined;
      const [row] = await tx.query<Step>(sql, values);
      await this.endHolds(stage, row!.dead, tx);
      return row;
    });
  }

  /** Nothing waits behind them any more: with the last dead letter that a hold stands for it goes. */
  private async endHolds(stage: Stage, dead: Step['dead'], tx: Transaction): Promise<void> {
    if (dead.length > 0) void tx.query(FORCE_INDEX_PLANS);
    const ending = byLane(dead).map(([lane, keys]) => endDeadLetterHolds(tx, { stage, lane }, keys));
    await Promise.all(ending);
  }

  /** A11: nobody handled it for so long that nobody will; that is said, counted, and it can still be found. */
  private async giveUp(stage: Stage, places: readonly Place[]): Promise<void> {
    const after = formatDuration(this.settings.retentionWaiting);
    for (const [lane, positions] of byLane(places)) {
      const ended = await this.database.transaction(async (tx) => {
        // As long as it is locked nobody takes up what waits in it.
        await lockLane(tx, { stage, lane });
        return tx.execute(GIVE_UP[stage], [positions, after]);
      });
      if (ended === 0) continue;
      this.givenUp.inc({ stage }, ended);
      this.log.warn({ event: 'retention.given-up', stage, count: ended, after }, 'it was never handled');
    }
  }

  private async removeProducers({ signal, progressed }: SweepContext): Promise<void> {
    let after = { source: '', id: '' };
    while (!signal.aborted) {
      const values = [after.source, after.id, STRETCH, this.settings.retentionProducers];
      const [, rows] = await this.database.inOneRoundTrip([[FORCE_INDEX_PLANS], [REMOVE_PRODUCERS, values]]);
      const [step] = rows as [{ removed: number; source: string; id: string }?];
      if (!step) return;
      this.removed.inc({ stage: 'producers' }, step.removed);
      progressed();
      after = step;
    }
  }

  /** Their items first, and one without any goes itself. */
  private async removeWithItems(
    course: SweepContext,
    items: string,
    ones: string,
    olderThanMs: number,
  ): Promise<void> {
    await this.removeAll(course, (most) => this.database.execute(items, [olderThanMs, most]));
    await this.database.execute(ones, [olderThanMs]);
  }

  /** A part at a time, until there is nothing left. */
  private async removeAll(
    { signal, progressed }: SweepContext,
    removeSome: (most: number) => Promise<number>,
  ): Promise<void> {
    while (!signal.aborted && (await removeSome(STRETCH)) === STRETCH) progressed();
  }
}

function byLane<Thing>(places: readonly (readonly [lane: number, thing: Thing])[]): [number, Thing[]][] {
  const lanes = new Map<number, Thing[]>();
  for (const [lane, thing] of places) {
    const things = lanes.get(lane);
    if (things) things.push(thing);
    else lanes.set(lane, [thing]);
  }
  return [...lanes];
}
