import { Inject, Injectable } from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import { IngestStore } from '../../inbox/ingest-store.ts';
import { INBOX_LANES, type NewMessage } from '../../inbox/new-message.ts';
import { laneOf } from '../../lanes/lane-of.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { Cron } from './cron.ts';
import { dueTicks } from './due-ticks.ts';
import { type ScheduleRow, ScheduleStore } from './schedule-store.ts';

const SOURCE = 'urn:sluice:schedules';
const MAX_AT_ONCE = 20;
/** Of the payloads in one statement: a thousand missed ticks have as many copies. */
const MAX_INSERT_BYTES = 4_194_304;
/** Another replica may have been told of a schedule. */
const MAX_REST_MS = 1_000;
/** So long a schedule that this replica does not understand is left to others. */
const LEFT_MS = 60_000;

interface Posted {
  readonly schedules: number;
  readonly lanes: ReadonlySet<number>;
}

/** E1: posts a message at each tick of each schedule, once over all replicas. */
@Injectable()
export class Schedules {
  private readonly loop: Loop;
  private readonly ticks;
  /** Names of schedules that this replica does not understand, and until when it does not look at them. */
  private readonly left = new Map<string, number>();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly store: ScheduleStore,
    private readonly ingest: IngestStore,
    private readonly wakeups: Wakeups,
    loops: Loops,
    metrics: Metrics,
  ) {
    this.loop = loops.run('upkeep', 'schedules', MAX_REST_MS, () => this.pass());
    this.ticks = metrics.counter({
      name: 'schedule_ticks_total',
      help: 'Messages posted by schedules.',
      labelNames: ['schedule'],
    });
  }

  /** A schedule was put or resumed. */
  wake(): void {
    this.left.clear();
    this.loop.wake();
  }

  private async pass(): Promise<Next> {
    const { schedules, lanes } = await this.database.transaction((tx) => this.postDue(tx));
    if (lanes.size) this.wakeups.announce('inbox', lanes);
    if (schedules === MAX_AT_ONCE) return 'again';
    const ms = (await this.store.untilNextMs(this.leftToOthers())) ?? MAX_REST_MS;
    // What is due and was not taken is in another replica's hands.
    return { afterMs: Math.min(MAX_REST_MS, Math.max(20, ms)) };
  }

  private async postDue(tx: Transaction): Promise<Posted> {
    const due = await this.store.takeDue(MAX_AT_ONCE, this.leftToOthers(), tx);
    const lanes = new Set<number>();
    for (const row of due) for (const lane of await this.post(row, row.now, tx)) lanes.add(lane);
    return { schedules: due.length, lanes };
  }

  /** Answers with the lanes written to. */
  private async post(row: ScheduleRow, now: Date, tx: Transaction): Promise<number[]> {
    const parsed = Cron.parse(row.cron, row.timezone);
    if (parsed.kind === 'faulty') return this.leave(row, parsed.detail);
    const { ticks, nextAt, missedFrom } = dueTicks(parsed.cron, row.next_at, now, row.on_missed);
    if (missedFrom)
      this.log.warn(
        { event: 'schedule.missed', schedule: row.name, from: missedFrom, onMissed: row.on_missed },
        'nobody was there for ticks of a schedule',
      );
    await this.store.advance(row.name, nextAt, ticks.at(-1), tx);
    if (ticks.length === 0) return [];
    const messages = ticks.map((tick) => messageOf(row, tick));
    const perInsert = Math.max(1, Math.floor(MAX_INSERT_BYTES / row.payload.length));
    for (let from = 0; from < messages.length; from += perInsert) {
      // One that is there already is left out: a second guard, should the row ever be restored from a backup.
      const posted = await this.ingest.insert(messages.slice(from, from + perInsert), tx);
      this.ticks.inc({ schedule: row.name }, posted.length);
    }
    return messages.map(({ lane }) => lane);
  }

  /**
   * It was valid where it was put; this replica knows other time zones. One that knows them posts its ticks, now or, as its
   * policy says, later; the others must not wait for it here.
   */
  private leave({ name }: ScheduleRow, reason: string): number[] {
    this.log.error(
      { event: 'schedule.invalid', schedule: name, reason, retryInMs: LEFT_MS },
      'a schedule cannot be understood here; it is left to other replicas',
    );
    this.left.set(name, performance.now() + LEFT_MS);
    return [];
  }

  private leftToOthers(): string[] {
    for (const [name, untilMs] of this.left) if (untilMs <= performance.now()) this.left.delete(name);
    return [...this.left.keys()];
  }
}

/** Its id tells of which schedule and tick it is: there can be one only. */
function messageOf({ name, type, key: given, payload }: ScheduleRow, tick: Date): NewMessage {
  const at = tick.toISOString();
  const id = `${name}/${at}`;
  const key = given ?? id;
  return {
    id,
    source: SOURCE,
    type,
    key,
    keyless: given === null,
    lane: laneOf(key, INBOX_LANES),
    payload,
    headers: undefined,
    occurredAt: at,
    dueAt: undefined,
    expiresAt: undefined,
    producer: undefined,
  };
}
