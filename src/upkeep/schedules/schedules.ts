import { randomUUID } from 'node:crypto';
import { Inject, Injectable, Optional } from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import { problemOf } from '../../http/problem-of.ts';
import { IngestStore } from '../../inbox/ingest-store.ts';
import { MESSAGE_ROUTER, type MessageRouter } from '../../inbox/message-router.ts';
import { type NewMessage, newMessage } from '../../inbox/new-message.ts';
import { OWN_LANES, type OwnLanes } from '../../inbox/own-lanes.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { Cron } from './cron.ts';
import { dueTicks } from './due-ticks.ts';
import { type ScheduleRow, ScheduleStore } from './schedule-store.ts';

const SOURCE = 'urn:sluice:schedules';
const MAX_PER_PASS = 20;
/** Max total size of the payloads in one statement: a thousand missed ticks have a thousand copies. */
const MAX_INSERT_BYTES = 4_194_304;
/** Schedules that another replica stored are noticed within this time. */
const MAX_IDLE_MS = 1_000;
/** How long this replica leaves a schedule it cannot parse to other replicas. */
const SKIP_MS = 60_000;
/** How long a schedule waits whose cell is away. */
const AWAY_MS = 1_000;

interface Posted {
  readonly schedules: number;
  readonly lanes: ReadonlySet<number>;
}

/** Posts a message at each tick of each schedule, exactly once over all replicas. */
@Injectable()
export class Schedules {
  private readonly loop: Loop;
  private readonly ticks;
  /** Schedules that this replica cannot parse, by name, and until when it skips them. */
  private readonly skippedUntil = new Map<string, number>();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly store: ScheduleStore,
    private readonly ingest: IngestStore,
    private readonly wakeups: Wakeups,
    loops: Loops,
    metrics: Metrics,
    @Optional() @Inject(MESSAGE_ROUTER) private readonly router: MessageRouter | undefined,
    @Optional() @Inject(OWN_LANES) private readonly ownLanes: OwnLanes | undefined,
  ) {
    this.loop = loops.run('upkeep', 'schedules', MAX_IDLE_MS, () => this.pass());
    this.ticks = metrics.counter('schedule_ticks_total', 'Messages posted by schedules.', ['schedule']);
  }

  /** Call it when a schedule was stored or resumed. */
  wake(): void {
    this.skippedUntil.clear();
    this.loop.wake();
  }

  /** Posts the message of a schedule now, also while it is paused. Returns its id; undefined if there is no such schedule. */
  async run(name: string, by: string): Promise<string | undefined> {
    const message = await this.database.transaction(async (tx) => {
      const row = await this.store.takeForRun(name, by, tx);
      if (!row) return undefined;
      const posted = messageOf(row, row.now, `${name}/run/${row.now.toISOString()}/${randomUUID()}`);
      await this.insert([posted], tx);
      return posted;
    });
    if (!message) return undefined;
    this.ticks.inc({ schedule: name });
    this.wakeups.announce('inbox', new Set([message.lane]));
    return message.id;
  }

  private async pass(): Promise<Next> {
    const { schedules, lanes } = await this.database.transaction((tx) => this.postDue(tx));
    if (lanes.size) this.wakeups.announce('inbox', lanes);
    if (schedules === MAX_PER_PASS) return 'again';
    const ms = (await this.store.untilNextMs(this.skippedNames())) ?? MAX_IDLE_MS;
    // A due schedule that was not taken is locked by another replica.
    return { afterMs: Math.min(MAX_IDLE_MS, Math.max(20, ms)) };
  }

  private async postDue(tx: Transaction): Promise<Posted> {
    const due = await this.store.takeDue(MAX_PER_PASS, this.skippedNames(), tx);
    const lanes = new Set<number>();
    for (const row of due) for (const lane of await this.postUnlessAway(row, tx)) lanes.add(lane);
    return { schedules: due.length, lanes };
  }

  /** The cell of its key is away, or its slot is being moved: its ticks wait, those of other schedules do not. */
  private async postUnlessAway(row: ScheduleRow & { now: Date }, tx: Transaction): Promise<number[]> {
    if (!this.ownLanes) return this.post(row, row.now, tx);
    await tx.execute('SAVEPOINT schedule');
    try {
      const lanes = await this.post(row, row.now, tx);
      await tx.execute('RELEASE SAVEPOINT schedule');
      return lanes;
    } catch (error) {
      if (problemOf(error).problem !== 'cell-away') throw error;
      await tx.execute('ROLLBACK TO SAVEPOINT schedule');
      this.skippedUntil.set(row.name, performance.now() + AWAY_MS);
      return [];
    }
  }

  /** Returns the lanes written to. */
  private async post(row: ScheduleRow, now: Date, tx: Transaction): Promise<number[]> {
    const parsed = Cron.parse(row.cron, row.timezone);
    if (parsed.kind === 'faulty') return this.skip(row, parsed.detail);
    const { ticks, nextAt, missedFrom } = dueTicks(parsed.cron, row.next_at, now, row.on_missed);
    if (missedFrom)
      this.log.warn(
        { event: 'schedule.missed', schedule: row.name, from: missedFrom, onMissed: row.on_missed },
        'ticks of a schedule were missed because no replica was running',
      );
    const messages = ticks.map((tick) => messageOf(row, tick));
    const perInsert = Math.max(1, Math.floor(MAX_INSERT_BYTES / row.payload.length));
    for (let from = 0; from < messages.length; from += perInsert) {
      // Existing messages are skipped: a second guard, in case the schedule's row is restored from a backup.
      const posted = await this.insert(messages.slice(from, from + perInsert), tx);
      this.ticks.inc({ schedule: row.name }, posted);
    }
    await this.store.advance(row.name, nextAt, ticks.at(-1), tx);
    return messages.map(({ lane }) => lane);
  }

  /** Returns how many were new. Those of other cells are stored before this transaction ends: if it fails, they are duplicates. */
  private async insert(messages: readonly NewMessage[], tx: Transaction): Promise<number> {
    const { router, ownLanes } = this;
    const here = messages.filter(({ lane }) => ownLanes?.has(lane) ?? true);
    const others = messages.filter((message) => !here.includes(message));
    const inserted = here.length > 0 ? (await this.ingest.insertNew(here, tx)).length : 0;
    if (!router || others.length === 0) return inserted;
    const bytes = others.reduce((sum, { payload }) => sum + payload.length, 0);
    const outcomes = await router.post({ messages: others, batch: true, pointer: '', bytes });
    return inserted + outcomes.filter(({ kind }) => kind === 'accepted').length;
  }

  /**
   * The schedule was valid on the replica that stored it, but this one has different time zone data. A replica that can
   * parse it posts its ticks, now or later as its policy says; other schedules must not wait for it here.
   */
  private skip({ name }: ScheduleRow, reason: string): number[] {
    this.log.error(
      { event: 'schedule.invalid', schedule: name, reason, retryInMs: SKIP_MS },
      'this replica cannot parse a schedule and leaves it to other replicas',
    );
    this.skippedUntil.set(name, performance.now() + SKIP_MS);
    return [];
  }

  private skippedNames(): string[] {
    for (const [name, untilMs] of this.skippedUntil)
      if (untilMs <= performance.now()) this.skippedUntil.delete(name);
    return [...this.skippedUntil.keys()];
  }
}

/** The id is made of the schedule and the tick, so there is at most one message per tick. */
function messageOf(
  { name, type, key, payload }: ScheduleRow,
  tick: Date,
  id = `${name}/${tick.toISOString()}`,
): NewMessage {
  const occurredAt = tick.toISOString();
  return newMessage({ id, source: SOURCE, type, key: key ?? undefined, payload, occurredAt });
}
