import { setTimeout as pause } from 'node:timers/promises';
import { check } from './check.ts';
import type { Version } from './fleet.ts';
import { Ground, LEASE_MS } from './ground.ts';
import { Operator } from './operator.ts';
import type { Postgres } from './postgres.ts';
import { Producers } from './producers.ts';
import { type Blow, type Fault, schedule } from './schedule.ts';
import { ALONE, ON_ONE, STRIKES, type Surroundings } from './strikes.ts';
import { type Violation, violation } from './violation.ts';
import { Watch } from './watch.ts';

export interface FaultRunOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly replicas: number;
  readonly rate: number;
  readonly keys: number;
  readonly everyMs: number;
  readonly faults: readonly Fault[];
  readonly without: readonly string[];
  readonly postgres: Postgres;
  readonly version: Version;
  readonly previous: Version | undefined;
  readonly quietMs: number;
  /** Before the first post. */
  readonly begin?: (ground: Ground) => Promise<void>;
  say(line: string): void;
}

export interface FaultRunResult {
  readonly violations: readonly Violation[];
  readonly struck: Record<string, number>;
  readonly counts: Record<string, number>;
  readonly schedule: readonly Blow[];
}

/** Longer than a lease is a fault; the machine that tests may be slow. */
const MAX_MARKED_MS = 10 * LEASE_MS;
const DRAIN_MS = 20_000;
const SAY_EVERY_MS = 5_000;
const WORKS_WITHIN_MS = 15_000;
const forEver = new Promise<never>(() => undefined);

/** Replicas under fire while messages come in; then peace; then the reckoning. */
export async function faultRun(options: FaultRunOptions): Promise<FaultRunResult> {
  const { seed, postgres, version, replicas, without, faults } = options;
  const ground = await Ground.prepare({
    seed,
    postgres,
    version,
    replicas,
    without,
    skew: faults.includes('skew'),
  });
  try {
    await options.begin?.(ground);
    return await new FaultRun(ground, options).run();
  } finally {
    await ground.end();
  }
}

class FaultRun {
  private readonly blows: readonly Blow[];
  private readonly struck: Record<string, number> = {};
  private readonly producers: Producers;
  private readonly operator: Operator;
  private readonly watch: Watch;
  private readonly startedAt = Date.now();
  /** Blows that found no replica to fall on. */
  private missed = 0;
  private phase = 'fire';
  private over = false;

  constructor(
    private readonly ground: Ground,
    private readonly options: FaultRunOptions,
  ) {
    const { seed, keys, rate, faults } = options;
    const poison = faults.includes('poison');
    this.blows = schedule({ ...options, leaseMs: LEASE_MS });
    this.producers = new Producers({
      seed,
      urls: ground.urls,
      producers: 13,
      keys,
      rate,
      poison,
      kills: poison ? 2 : 0,
    });
    this.operator = new Operator(ground.database, seed, Math.ceil(keys / 3));
    this.watch = new Watch(ground.database, ground.fleet, MAX_MARKED_MS);
  }

  async run(): Promise<FaultRunResult> {
    const { ground, options, producers } = this;
    const until = this.startedAt + options.seconds * 1_000;
    const watching = this.watch.run();
    const saying = this.sayAll();
    for (const fault of options.faults)
      if (!STRIKES[fault]) void ground.inject(fault, undefined, () => forEver);
    if (options.faults.includes('receivers')) ground.setMood('moody');
    const posting = producers.run(until);
    posting.catch(() => undefined);
    await Promise.all([this.strike(), this.operator.run(until), pause(options.seconds * 1_000)]);
    ground.fleet.disarm();
    for (const wire of ground.wires) wire.cutAtCommit(undefined);
    ground.setMood('fair');
    this.phase = 'peace';
    const givingUp = setTimeout(() => producers.giveUp(), options.quietMs);
    await posting;
    clearTimeout(givingUp);
    const left = await ground.quiet(options.quietMs);
    this.over = true;
    const inPassing = this.watch.end();
    await Promise.all([watching, saying]);
    return this.reckon(left, inPassing);
  }

  private async reckon(left: number, inPassing: readonly Violation[]): Promise<FaultRunResult> {
    const { ground, producers, operator } = this;
    const restMs = Date.now() - this.startedAt - this.options.seconds * 1_000;
    const history = await ground.history(producers.posted, operator.keys);
    const ends = [...(await ground.fleet.drain(DRAIN_MS)), ...ground.fleet.faults];
    const counted = (rows: readonly { status: string }[], status: string) =>
      rows.filter((row) => row.status === status).length;
    return {
      violations: [
        ...check(history),
        ...inPassing,
        ...(left > 0
          ? [violation('nothing stuck', `${left} rows, lanes or holds did not come to rest`)]
          : []),
        ...ends.map((detail) => violation('replicas drain, none ends by itself', detail)),
      ],
      struck: this.struck,
      counts: {
        ...producers.counts,
        accepted: producers.posted.filter(({ outcome }) => outcome === 'accepted').length,
        refused: producers.posted.filter(({ outcome }) => outcome === 'refused').length,
        messages: history.messages.length,
        ...Object.fromEntries(
          ['finished', 'dead', 'held', 'expired', 'superseded'].map((status) => [
            status,
            counted(history.messages, status),
          ]),
        ),
        deliveries: history.deliveries.length,
        deadDeliveries: counted(history.deliveries, 'dead'),
        requests: history.arrivals.length,
        repeatedRequests:
          history.arrivals.length - new Set(history.arrivals.map(({ delivery }) => delivery)).size,
        failedRequests: history.arrivals.filter(({ answer }) => answer !== 'ok').length,
        heldByOperator: operator.held,
        killed: ground.fleet.ends.killed,
        drained: ground.fleet.ends.asked,
        drainedTooLong: ground.fleet.ends.drainedTooLong,
        blowsMissed: this.missed,
        maxRecoveryAfterFailoverMs: Math.max(0, ...ground.recoveriesMs),
        maxMarkInFreeLaneMs: this.watch.maxMarkMs,
        restMs,
      },
      schedule: this.blows,
    };
  }

  private async strike(): Promise<void> {
    const { ground } = this;
    const { previous } = this.options;
    const striking: Promise<void>[] = [];
    for (const blow of this.blows) {
      const wait = this.startedAt + blow.atMs - Date.now();
      if (wait > 0) await pause(wait);
      const struck = this.strikeOnce(blow, { ground, previous });
      if (ALONE.includes(blow.fault)) await struck;
      else striking.push(struck);
    }
    await Promise.all(striking);
  }

  private async strikeOnce(blow: Blow, around: Surroundings): Promise<void> {
    const { fault, place } = blow;
    if (ON_ONE.includes(fault) && !(await this.ground.fleet.canBeStruck(place, WORKS_WITHIN_MS))) {
      this.missed += 1;
      return;
    }
    this.struck[fault] = (this.struck[fault] ?? 0) + 1;
    await this.ground.inject(fault, ON_ONE.includes(fault) ? place : undefined, () =>
      STRIKES[fault]!(blow, around),
    );
  }

  private async sayAll(): Promise<void> {
    for (let nextMs = SAY_EVERY_MS; !this.over; await pause(100)) {
      if (Date.now() - this.startedAt < nextMs) continue;
      nextMs += SAY_EVERY_MS;
      const [row] = await this.ground.database.query<{
        ended: number;
        open: number;
        sent: number;
        owed: number;
      }>(
        `SELECT (SELECT count(*) FROM inbox WHERE settled_at IS NOT NULL)::int AS ended,
                (SELECT count(*) FROM inbox WHERE settled_at IS NULL)::int AS open,
                (SELECT count(*) FROM outbox WHERE settled_at IS NOT NULL)::int AS sent,
                (SELECT count(*) FROM outbox WHERE settled_at IS NULL)::int AS owed`,
      );
      const { ended, open, sent, owed } = row!;
      const blows = Object.values(this.struck).reduce((sum, n) => sum + n, 0);
      const states = this.ground.fleet.replicas.map(({ state }) => state).join(' ');
      this.options.say(
        `${String(Math.round((Date.now() - this.startedAt) / 1_000)).padStart(4)} s  ${this.phase}  ` +
          `posted ${this.producers.posted.length}  ended ${ended}  open ${open}  delivered ${sent}  owed ${owed}  ` +
          `blows ${blows}  replicas ${states}`,
      );
    }
  }
}
