import { setTimeout as pause } from 'node:timers/promises';
import { Additions } from './additions/additions.ts';
import { Api } from './api.ts';
import { LEASE_MS } from './bed-settings.ts';
import { check } from './check.ts';
import { countsOf } from './counts.ts';
import type { Version } from './fleet.ts';
import { Consumers } from './groups/consumers.ts';
import type { History } from './history.ts';
import { INJECTORS, type InjectionContext, ON_DATABASE, ON_ONE_REPLICA } from './injectors.ts';
import { InvariantWatch } from './invariant-watch.ts';
import { Operator } from './operator/operator.ts';
import type { Postgres } from './postgres.ts';
import { Producers } from './producers.ts';
import { Workers } from './queues/workers.ts';
import { Readers } from './rebuilds/readers.ts';
import type { Rebuilt } from './rebuilds/rebuild-history.ts';
import { Rebuilder } from './rebuilds/rebuilder.ts';
import { type Fault, type ScheduledFault, schedule } from './schedule.ts';
import { TestBed } from './test-bed.ts';
import { type Violation, violation } from './violation.ts';

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
  readonly idleTimeoutMs: number;
  /** Runs before the first post. */
  readonly beforeFirstPost?: (bed: TestBed) => Promise<void>;
  log(line: string): void;
}

export interface FaultRunResult {
  readonly violations: readonly Violation[];
  /** How often each fault was injected. */
  readonly injections: Record<string, number>;
  readonly counts: Record<string, number>;
  readonly schedule: readonly ScheduledFault[];
}

/** A free lane should be claimed within a lease; the limit allows for a slow machine. */
const STALE_LIMIT_MS = 10 * LEASE_MS;
const DRAIN_MS = 20_000;
const PROGRESS_EVERY_MS = 5_000;
const TARGETABLE_WITHIN_MS = 15_000;
const forever = new Promise<never>(() => undefined);

/** Injects faults while messages come in; then waits without faults until the replicas are idle; then checks the history. */
export async function faultRun(options: FaultRunOptions): Promise<FaultRunResult> {
  const { seed, postgres, version, replicas, without, faults } = options;
  const bed = await TestBed.prepare({
    seed,
    postgres,
    version,
    replicas,
    without,
    skew: faults.includes('skew'),
    consuming: true,
  });
  try {
    await options.beforeFirstPost?.(bed);
    return await new FaultRun(bed, options).run();
  } finally {
    await bed.end();
  }
}

class FaultRun {
  private readonly schedule: readonly ScheduledFault[];
  private readonly injections: Record<string, number> = {};
  private readonly producers: Producers;
  private readonly operator: Operator;
  private readonly api: Api;
  private readonly consumers: Consumers;
  private readonly workers: Workers;
  private readonly additions: Additions;
  private readonly rebuilder: Rebuilder;
  private readonly readers: Readers;
  private readonly watch: InvariantWatch;
  private readonly startedAt = Date.now();
  /** Faults that were skipped because no replica was in a state to inject them on. */
  private skipped = 0;
  private phase = 'faults';
  private over = false;

  constructor(
    private readonly bed: TestBed,
    private readonly options: FaultRunOptions,
  ) {
    const { seed, keys, rate, faults } = options;
    const poison = faults.includes('poison');
    this.schedule = schedule({ ...options, leaseMs: LEASE_MS });
    this.producers = new Producers({
      seed,
      urls: bed.urls,
      producers: 13,
      keys,
      rate,
      poison,
      kills: poison ? 2 : 0,
    });
    this.api = new Api(bed.urls);
    this.operator = new Operator({
      api: this.api,
      seed,
      listeners: bed.terms.listeners.map(({ name }) => name),
      queues: bed.terms.queues!.map(({ name }) => name),
      groups: bed.terms.groups!.groups.map(({ name }) => name),
      keys: Array.from({ length: Math.ceil(keys / 3) }, (_, n) => `k${n}`),
      actions: faults.includes('operator'),
      onRotated: (listener, secret) => bed.addSecret(listener, secret),
    });
    const consuming = { api: this.api, seed, faults: faults.includes('consumers') };
    this.consumers = new Consumers(consuming);
    this.workers = new Workers(consuming);
    this.additions = new Additions({
      api: this.api,
      seed,
      onGroup: (name) => this.consumers.startOne(name, name, false),
      onQueue: (queue) => this.workers.startAt(queue),
    });
    this.rebuilder = new Rebuilder({ api: this.api, seed, bed });
    this.readers = new Readers(this.api, seed, ['hot', ...Array.from({ length: keys }, (_, n) => `k${n}`)]);
    this.watch = new InvariantWatch(bed.database, bed.fleet, STALE_LIMIT_MS);
  }

  async run(): Promise<FaultRunResult> {
    const { bed, options, producers } = this;
    const until = this.startedAt + options.seconds * 1_000;
    const watching = this.watch.run();
    const progress = this.logProgress();
    for (const fault of options.faults)
      if (!INJECTORS[fault]) void bed.inject(fault, undefined, () => forever);
    if (options.faults.includes('receivers')) bed.setReceiverMode('flaky');
    this.consumers.start();
    this.workers.start();
    this.readers.start();
    const posting = producers.run(until);
    posting.catch(() => undefined);
    const adding = options.faults.includes('additions') ? this.additions.run(until) : undefined;
    const rebuilding = options.faults.includes('rebuilds') ? this.rebuilder.run(until) : undefined;
    const acting = [this.operator.run(until), adding, rebuilding];
    await Promise.all([this.injectAll(), ...acting, pause(options.seconds * 1_000)]);
    this.calm();
    const giveUpTimer = setTimeout(() => producers.giveUp(), options.idleTimeoutMs);
    await posting;
    clearTimeout(giveUpTimer);
    if (options.faults.includes('rebuilds')) await this.rebuilder.finish(options.idleTimeoutMs);
    const remaining = await bed.waitUntilIdle(options.idleTimeoutMs);
    await Promise.all([this.consumers.finish(), this.workers.finish(), this.readers.finish()]);
    this.over = true;
    const transientViolations = this.watch.end();
    await Promise.all([watching, progress]);
    return this.result(remaining, transientViolations);
  }

  /** No more faults. */
  private calm(): void {
    const { bed } = this;
    this.consumers.calm();
    this.workers.calm();
    bed.fleet.disarm();
    for (const proxy of bed.proxies) proxy.cutAtCommit(undefined);
    bed.setReceiverMode('healthy');
    this.phase = 'recovery';
  }

  private async result(remaining: number, transient: readonly Violation[]): Promise<FaultRunResult> {
    const { bed, producers, operator, consumers, workers } = this;
    const msUntilIdle = Date.now() - this.startedAt - this.options.seconds * 1_000;
    const history = await bed.history({
      posted: producers.posted,
      operated: operator.operated,
      calls: consumers.calls,
      workerCalls: workers.calls,
      added: this.additions.added,
      rebuilt: this.rebuilt,
    });
    const exits = [...(await bed.fleet.drain(DRAIN_MS)), ...bed.fleet.unexpectedExits];
    const stuck = remaining > 0 ? [`${remaining} rows, lanes or holds were still open`] : [];
    return {
      violations: [
        ...check(history),
        ...transient,
        ...stuck.map((detail) => violation('nothing stuck', detail)),
        ...this.api.unexpected.map((detail) => violation('no unexpected response', detail)),
        ...exits.map((detail) => violation('replicas drain, none exits on its own', detail)),
      ],
      injections: this.injections,
      counts: { ...this.counts(history), msUntilIdle },
      schedule: this.schedule,
    };
  }

  private counts(history: History): Record<string, number> {
    const { bed, producers, operator, consumers, workers, readers, rebuilder } = this;
    return {
      ...producers.counts,
      ...countsOf(history),
      ...consumers.counts,
      ...workers.counts,
      ...operator.counts,
      ...readers.counts,
      ...rebuilder.counts,
      rebuildsWentOn: rebuilder.interruption.wentOn,
      killed: bed.fleet.ends.killed,
      drained: bed.fleet.ends.drained,
      drainedTooLong: bed.fleet.ends.drainedTooLong,
      faultsSkipped: this.skipped,
      maxRecoveryAfterFailoverMs: Math.max(0, ...bed.recoveriesMs),
      maxProcessingInFreeLaneMs: this.watch.maxStaleMs,
    };
  }

  private get rebuilt(): Rebuilt {
    const { readers, rebuilder } = this;
    return { seen: readers.seen, lost: readers.lost, stopped: rebuilder.stopped };
  }

  private async injectAll(): Promise<void> {
    const { bed } = this;
    const { previous } = this.options;
    const running: Promise<void>[] = [];
    for (const scheduled of this.schedule) {
      const wait = this.startedAt + scheduled.atMs - Date.now();
      if (wait > 0) await pause(wait);
      const injection = this.injectOne(scheduled, { bed, previous });
      if (ON_DATABASE.includes(scheduled.fault)) await injection;
      else running.push(injection);
    }
    await Promise.all(running);
  }

  private async injectOne(scheduled: ScheduledFault, context: InjectionContext): Promise<void> {
    const { fault, slot } = scheduled;
    if (
      ON_ONE_REPLICA.includes(fault) &&
      !(await this.bed.fleet.waitUntilTargetable(slot, TARGETABLE_WITHIN_MS))
    ) {
      this.skipped += 1;
      return;
    }
    this.injections[fault] = (this.injections[fault] ?? 0) + 1;
    await this.bed.inject(fault, ON_ONE_REPLICA.includes(fault) ? slot : undefined, () =>
      INJECTORS[fault]!(scheduled, context),
    );
  }

  private async logProgress(): Promise<void> {
    for (let nextMs = PROGRESS_EVERY_MS; !this.over; await pause(100)) {
      if (Date.now() - this.startedAt < nextMs) continue;
      nextMs += PROGRESS_EVERY_MS;
      const [row] = await this.bed.database.query<{
        ended: number;
        open: number;
        sent: number;
        pending: number;
      }>(
        `SELECT (SELECT count(*) FROM inbox WHERE settled_at IS NOT NULL)::int AS ended,
                (SELECT count(*) FROM inbox WHERE settled_at IS NULL)::int AS open,
                (SELECT count(*) FROM outbox WHERE settled_at IS NOT NULL)::int AS sent,
                (SELECT count(*) FROM outbox WHERE settled_at IS NULL)::int AS pending`,
      );
      const { ended, open, sent, pending } = row!;
      const injected = Object.values(this.injections).reduce((sum, n) => sum + n, 0);
      const states = this.bed.fleet.replicas.map(({ state }) => state).join(' ');
      this.options.log(
        `${String(Math.round((Date.now() - this.startedAt) / 1_000)).padStart(4)} s  ${this.phase}  ` +
          `posted ${this.producers.posted.length}  ended ${ended}  open ${open}  delivered ${sent}  pending ${pending}  ` +
          `faults ${injected}  replicas ${states}`,
      );
    }
  }
}
