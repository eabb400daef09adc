import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startTcpProxy, type TcpProxy } from '../test/support/tcp-proxy.ts';
import { type Added, NOTHING_ADDED } from './additions/additions.ts';
import { attemptsOf } from './attempts.ts';
import { DELIVERY_RETRIES, LISTENERS, SETTINGS, TYPES } from './bed-settings.ts';
import { CREATE_ATTEMPT_LOG } from './chain.ts';
import { Fleet, type Version } from './fleet.ts';
import { type ConsumerCall, readGroups } from './groups/group-history.ts';
import { LAG, prepareGroups } from './groups/prepare-groups.ts';
import { type History, type Posted, type RunTerms, readArrivals, readTables } from './history.ts';
import type { InjectedFault } from './logged.ts';
import { ObserverDatabase } from './observer-database.ts';
import {
  INSTALL_DEAD_LETTER_LOG,
  NOTHING_OPERATED,
  type Operated,
  readOperations,
  UNFINISHED_OPERATIONS,
} from './operator/operator-history.ts';
import type { Postgres } from './postgres.ts';
import { prepareQueues } from './queues/prepare-queues.ts';
import { readQueues, type WorkerCall } from './queues/queue-history.ts';
import {
  NOTHING_REBUILT,
  type Rebuilt,
  readRebuilds,
  UNFINISHED_REBUILDS,
} from './rebuilds/rebuild-history.ts';
import { readMessages } from './rebuilds/stored-messages.ts';
import { freePorts, startReceivers } from './receiver-process.ts';
import type { ReceiverCommand, ReceiverMode } from './receivers.ts';
import type { Fault } from './schedule.ts';

export interface TestBedOptions {
  readonly seed: number;
  readonly postgres: Postgres;
  readonly version: Version;
  readonly replicas: number;
  /** The clock of the last replica is off. */
  readonly skew: boolean;
  readonly without: readonly string[];
  readonly settings?: Record<string, string>;
  /** With topics, consumer groups and work queues. */
  readonly consuming?: boolean;
}

/** What those who take part in a run have recorded. */
export interface Recorded {
  readonly posted: readonly Posted[];
  readonly operated?: Operated;
  readonly calls?: readonly ConsumerCall[];
  readonly workerCalls?: readonly WorkerCall[];
  readonly added?: Added;
  readonly rebuilt?: Rebuilt;
}

/** Everything a run needs except the faults: a database, proxies to it, replicas, listeners and their receivers. */
export class TestBed {
  terms: RunTerms;
  /** For each failover: from the promotion of the standby to the first message stored after it. */
  readonly recoveriesMs: number[] = [];
  /** The faults injected so far. */
  readonly injected: InjectedFault[] = [];
  private readonly arrivalsFile: string;

  private constructor(
    readonly options: TestBedOptions,
    readonly database: ObserverDatabase,
    private readonly observerProxy: TcpProxy,
    /** One for each replica. */
    readonly proxies: readonly TcpProxy[],
    readonly fleet: Fleet,
    private readonly receivers: ChildProcess,
    private readonly folder: string,
    retries: readonly string[],
  ) {
    this.arrivalsFile = join(folder, 'arrivals.jsonl');
    this.terms = {
      retriesMs: retries.map(milliseconds),
      listeners: LISTENERS.map(({ name, ordered, format, onDead }) => ({
        name,
        onDead,
        types: TYPES,
        ordered,
        format,
        maxAttempts: DELIVERY_RETRIES.length + 1,
      })),
    };
  }

  static async prepare(options: TestBedOptions): Promise<TestBed> {
    const { postgres, version, replicas, without, seed } = options;
    const settings = { ...SETTINGS, ...options.settings };
    const url = await postgres.createDatabase(`run_${process.pid}_${Date.now()}`);
    const proxies = await Promise.all(
      Array.from({ length: replicas }, () => startTcpProxy(url, { remember: false })),
    );
    const ports = await freePorts(replicas + LISTENERS.length);
    const slots = proxies.map(({ url: databaseUrl }, index) => {
      const skewed = options.skew && index === replicas - 1;
      return { index, url: `http://127.0.0.1:${ports[index]}`, databaseUrl, skewed, version };
    });
    const fleet = new Fleet(slots, { settings, without });
    const folder = mkdtempSync(join(tmpdir(), 'sluice-chaos-run-'));
    const receivers = await startReceivers(
      LISTENERS.map(({ name }) => name),
      version,
      ports.slice(replicas),
      folder,
      seed,
    );
    const retries = settings.INBOX_RETRY_SCHEDULE.split(',');
    const observer = await startTcpProxy(url, { remember: false });
    const bed = new TestBed(
      options,
      new ObserverDatabase(observer.url),
      observer,
      proxies,
      fleet,
      receivers,
      folder,
      retries,
    );
    postgres.onMoved = (server) => bed.moveTo(Object.assign(new URL(url), { host: new URL(server).host }));
    await bed.start(ports.slice(replicas)).catch(async (error) => {
      await bed.end();
      throw error;
    });
    return bed;
  }

  get urls(): string[] {
    return this.fleet.slots.map(({ url }) => url);
  }

  /** The receiver accepts the old secret, too. */
  addSecret(listener: string, secret: string): void {
    this.command({ listener, secret });
  }

  setReceiverMode(mode: ReceiverMode): void {
    this.command({ listener: 'flaky', mode });
  }

  /** Waits until a replica has nothing left to do; returns the number of open rows, leases and holds on a timeout. */
  async waitUntilIdle(withinMs: number): Promise<number> {
    const deadline = Date.now() + withinMs;
    const open = (table: string) => `
      (SELECT count(*) FROM ${table} AS row WHERE settled_at IS NULL AND NOT (status = 'held' AND EXISTS (
         SELECT FROM hold WHERE hold.queue = '${table}' AND hold.lane = row.lane AND hold.key = row.key
           AND hold.until = 'infinity' AND hold.reason <> 'leased')))`;
    for (;;) {
      const [row] = await this.database.query<{ n: number }>(
        `SELECT (${open('inbox')} + ${open('outbox')}
           + (SELECT count(*) FROM lane WHERE leased_until > '-infinity' AND leased_until < 'infinity')
           + (SELECT count(*) FROM hold WHERE until < 'infinity') + (${LAG})
           + ${UNFINISHED_OPERATIONS} + ${UNFINISHED_REBUILDS})::int AS n`,
      );
      if (row!.n === 0 || Date.now() > deadline) return row!.n;
      await pause(100);
    }
  }

  /** Everything that was recorded. The attempts of deliveries that came twice are read over HTTP, so before the drain. */
  async history(recorded: Recorded): Promise<History> {
    const { posted, operated = NOTHING_OPERATED, calls = [], workerCalls = [] } = recorded;
    const stored = await readMessages(this.database);
    const tables = { messages: stored.messages, ...(await readTables(this.database)) };
    const rebuilds = await readRebuilds(
      this.database,
      recorded.rebuilt ?? NOTHING_REBUILT,
      stored.identities,
    );
    const operations = await readOperations(this.database, operated);
    const groups = this.terms.groups ? await readGroups(this.database, calls) : undefined;
    const queues = this.terms.queues ? await readQueues(this.database, workerCalls) : undefined;
    const arrivals = await this.endReceivers();
    const requests = new Map<string, number>();
    for (const { delivery } of arrivals) requests.set(delivery, (requests.get(delivery) ?? 0) + 1);
    const ids = new Map(tables.messages.map(({ position, id }) => [position, id]));
    const repeated = tables.deliveries.filter(({ id }) => (requests.get(id) ?? 0) > 1);
    const totals = await attemptsOf(
      [...new Set(repeated.map(({ message }) => ids.get(message)!))],
      this.urls,
    );
    const deliveries = tables.deliveries.map((row) => ({ ...row, attemptsTotal: totals.get(row.id) ?? 0 }));
    const { injected } = this;
    const { logged } = this.fleet;
    const terms = withAdded(this.terms, recorded.added ?? NOTHING_ADDED);
    return {
      ...tables,
      deliveries,
      arrivals,
      posted,
      operations,
      rebuilds,
      groups,
      queues,
      logged,
      injected,
      terms,
    };
  }

  /** Injects a fault and records when it began and ended. */
  async inject(fault: Fault, slot: number | undefined, injector: () => Promise<void>): Promise<void> {
    const one = { fault, slot, fromMs: Date.now(), toMs: Number.POSITIVE_INFINITY };
    this.injected.push(one);
    await injector();
    one.toMs = Date.now();
  }

  async end(): Promise<void> {
    await this.fleet.end();
    this.receivers.kill('SIGKILL');
    await this.database.close();
    await Promise.all([this.observerProxy, ...this.proxies].map((proxy) => proxy.close()));
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async start(receiverPorts: readonly number[]): Promise<void> {
    await this.fleet.startFirst();
    // Before the other replicas start: they load the listeners at start, and no message is posted to a replica without them.
    for (const [index, listener] of LISTENERS.entries())
      await this.putListener(listener, receiverPorts[index]!);
    await this.database.query(`CREATE SCHEMA chaos; ${CREATE_ATTEMPT_LOG} ${INSTALL_DEAD_LETTER_LOG}`);
    if (this.options.consuming) await this.prepareConsuming();
    await this.fleet.startOthers();
  }

  private moveTo({ href }: URL): void {
    for (const proxy of [this.observerProxy, ...this.proxies]) proxy.switchTo(href);
  }

  private async endReceivers() {
    const ended = once(this.receivers, 'exit');
    this.command({ listener: '', end: true });
    await ended;
    return readArrivals(this.arrivalsFile);
  }

  private command(command: ReceiverCommand): void {
    this.receivers.send(command);
  }

  private async putListener(
    { name, ...definition }: (typeof LISTENERS)[number],
    port: number,
  ): Promise<void> {
    const created = await this.put(`/v1/listeners/${name}`, {
      retrySchedule: DELIVERY_RETRIES,
      ...definition,
      types: TYPES,
      url: `http://127.0.0.1:${port}/`,
      timeout: '1s',
      lanes: 8,
    });
    this.command({ listener: name, secret: (created as { secret: string }).secret });
  }

  private async prepareConsuming(): Promise<void> {
    const put = async (path: string, definition: object) => void (await this.put(path, definition));
    const queues = await prepareQueues(put, this.database);
    this.terms = { ...this.terms, queues, groups: await prepareGroups(put, this.database) };
  }

  private async put(path: string, definition: object): Promise<unknown> {
    const response = await fetch(`${this.urls[0]}${path}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(definition),
    });
    if (response.status !== 201) throw new Error(`could not create ${path}: ${await response.text()}`);
    return response.json();
  }
}

function withAdded(terms: RunTerms, { topics, groups, queues }: Added): RunTerms {
  if (!terms.groups || !terms.queues) return terms;
  return {
    ...terms,
    queues: [...terms.queues, ...queues],
    groups: { topics: [...terms.groups.topics, ...topics], groups: [...terms.groups.groups, ...groups] },
  };
}

function milliseconds(duration: string): number {
  const [, amount, unit] = /^(\d+)(ms|s)$/.exec(duration)!;
  return Number(amount) * (unit === 's' ? 1_000 : 1);
}
