import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startTcpProxy, type TcpProxy } from '../test/support/tcp-proxy.ts';
import { Fleet, type Version } from './fleet.ts';
import {
  type DeliveryRow,
  type History,
  type Posted,
  type RunTerms,
  readArrivals,
  readTables,
} from './history.ts';
import type { InjectedFault } from './logged.ts';
import { ObserverDatabase } from './observer-database.ts';
import type { Postgres } from './postgres.ts';
import type { ReceiverCommand, ReceiverMode } from './receivers.ts';
import type { Fault } from './schedule.ts';

export const LEASE_MS = 2_000;
const RETRIES = ['50ms', '100ms', '100ms', '200ms', '200ms'];
const DELIVERY_RETRIES = ['200ms', '200ms', '500ms', '500ms', '1s', '1s', '2s', '2s'];
const READ_ATTEMPTS = 150;
const TYPES = ['plain', 'edit', 'slow', 'sent'];

const SETTINGS = {
  HOST: '127.0.0.1',
  LOG_LEVEL: 'warn',
  LOG_FORMAT: 'json',
  EGRESS_ALLOW: '127.0.0.0/8',
  SECRETS_KEYS: `k1=${'A'.repeat(43)}=`,
  INBOX_LEASE: `${LEASE_MS}ms`,
  INBOX_SLICE: '100ms',
  INBOX_POLL: '100ms',
  INBOX_BATCH_LANES: '8',
  INBOX_BATCH_MESSAGES: '64',
  INBOX_RETRY_SCHEDULE: RETRIES.join(','),
  INBOX_PREPARE_TIMEOUT: '2s',
  OUTBOX_LEASE: '4s',
  OUTBOX_POLL: '200ms',
  OUTBOX_SLICE: '300ms',
  DATABASE_POOL_SIZE: '6',
  DATABASE_STATEMENT_TIMEOUT: '5s',
  DATABASE_CONNECT_TIMEOUT: '2s',
  DRAIN_TIMEOUT: '15s',
};

/** Each listener has another combination of order, format and failure policy. */
const LISTENERS = [
  { name: 'steady', ordered: true, format: 'standard' },
  { name: 'flaky', ordered: true, format: 'standard', retrySchedule: DELIVERY_RETRIES },
  { name: 'unordered', ordered: false, format: 'cloudevents' },
  { name: 'strict', ordered: true, format: 'standard', terminalStatuses: [400], onDead: 'hold' },
] as const;

export interface TestBedOptions {
  readonly seed: number;
  readonly postgres: Postgres;
  readonly version: Version;
  readonly replicas: number;
  /** The clock of the last replica is off. */
  readonly skew: boolean;
  readonly without: readonly string[];
  readonly settings?: Record<string, string>;
}

/** Everything a run needs except the faults: a database, proxies to it, replicas, listeners and their receivers. */
export class TestBed {
  readonly terms: RunTerms;
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
      listeners: LISTENERS.map(({ name, ordered, format }) => ({
        name,
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
    const slots = proxies.map((proxy, index) => ({
      index,
      url: `http://127.0.0.1:${ports[index]}`,
      databaseUrl: proxy.url,
      skewed: options.skew && index === replicas - 1,
      version,
    }));
    const fleet = new Fleet(slots, { settings, without });
    const folder = mkdtempSync(join(tmpdir(), 'sluice-chaos-run-'));
    const receivers = await startReceivers(version, ports.slice(replicas), folder, seed);
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
    try {
      await fleet.startFirst();
      // Before the other replicas start: they load the listeners at start, and no message is posted to a replica without them.
      for (const [index, listener] of LISTENERS.entries()) {
        await bed.putListener(listener, ports[replicas + index]!);
      }
      await fleet.startOthers();
    } catch (error) {
      await bed.end();
      throw error;
    }
    return bed;
  }

  get urls(): string[] {
    return this.fleet.slots.map(({ url }) => url);
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
           AND hold.until = 'infinity')))`;
    for (;;) {
      const [row] = await this.database.query<{ n: number }>(
        `SELECT (${open('inbox')} + ${open('outbox')}
           + (SELECT count(*) FROM lane WHERE leased_until > '-infinity')
           + (SELECT count(*) FROM hold WHERE until < 'infinity'))::int AS n`,
      );
      if (row!.n === 0 || Date.now() > deadline) return row!.n;
      await pause(100);
    }
  }

  /** Everything that was recorded. The attempts of deliveries that came twice are read over HTTP, so before the drain. */
  async history(posted: readonly Posted[], operated: Iterable<string>): Promise<History> {
    const tables = await readTables(this.database);
    const arrivals = await this.endReceivers();
    const requests = new Map<string, number>();
    for (const { delivery } of arrivals) requests.set(delivery, (requests.get(delivery) ?? 0) + 1);
    const ids = new Map(tables.messages.map(({ position, id }) => [position, id]));
    const repeated = tables.deliveries.filter(({ id }) => (requests.get(id) ?? 0) > 1);
    const attempts = await this.attemptsOf([...new Set(repeated.map(({ message }) => ids.get(message)!))]);
    const deliveries = tables.deliveries.map((row) => ({ ...row, attempts: attempts.get(row.id) ?? [] }));
    const { injected, terms } = this;
    const { logged } = this.fleet;
    return { ...tables, deliveries, arrivals, posted, operated: [...operated], logged, injected, terms };
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

  private moveTo({ href }: URL): void {
    for (const proxy of [this.observerProxy, ...this.proxies]) proxy.switchTo(href);
  }

  private async attemptsOf(messages: readonly string[]): Promise<Map<string, DeliveryRow['attempts']>> {
    const attempts = new Map<string, DeliveryRow['attempts']>();
    const remaining = [...messages];
    const read = async () => {
      for (let id = remaining.pop(); id !== undefined; id = remaining.pop()) {
        const { deliveries } = await this.readMessage(id);
        for (const delivery of deliveries) attempts.set(delivery.id, delivery.attempts);
      }
    };
    await Promise.all(Array.from({ length: 8 }, read));
    return attempts;
  }

  /** From any replica that responds: some may still be starting. */
  private async readMessage(id: string): Promise<{ deliveries: DeliveryRow[] }> {
    for (let attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
      const url = this.urls[attempt % this.urls.length]!;
      const response = await fetch(`${url}/v1/messages/${encodeURIComponent(id)}`).catch(() => undefined);
      if (response?.status === 200) return (await response.json()) as { deliveries: DeliveryRow[] };
      await pause(200);
    }
    throw new Error(`no replica returned message ${id}`);
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
    const response = await fetch(`${this.urls[0]}/v1/listeners/${name}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        retrySchedule: DELIVERY_RETRIES,
        ...definition,
        types: TYPES,
        url: `http://127.0.0.1:${port}/`,
        timeout: '1s',
        lanes: 8,
      }),
    });
    const { secret } = (await response.json()) as { secret?: string };
    if (response.status !== 201 || !secret)
      throw new Error(`could not create listener ${name}: ${response.status}`);
    this.command({ listener: name, secret });
  }
}

async function startReceivers(
  { folder: program }: Version,
  ports: readonly number[],
  folder: string,
  seed: number,
): Promise<ChildProcess> {
  const names = LISTENERS.map(({ name }, index) => `${name}=${ports[index]}`);
  const child = spawn(process.execPath, [join(program, 'chaos/receivers.js')], {
    env: {
      PATH: process.env.PATH,
      CHAOS_RECEIVERS: names.join(','),
      CHAOS_ARRIVALS: join(folder, 'arrivals.jsonl'),
      CHAOS_SEED: String(seed),
    },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  await once(child, 'message');
  return child;
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

function milliseconds(duration: string): number {
  const [, amount, unit] = /^(\d+)(ms|s)$/.exec(duration)!;
  return Number(amount) * (unit === 's' ? 1_000 : 1);
}
