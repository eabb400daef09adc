import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startTcpProxy, type TcpProxy } from '../test/support/tcp-proxy.ts';
import { Beside } from './database.ts';
import { Fleet, type Version } from './fleet.ts';
import {
  type DeliveryRow,
  type History,
  type Posted,
  readArrivals,
  readTables,
  type Terms,
} from './history.ts';
import type { Injected } from './logged.ts';
import type { Postgres } from './postgres.ts';
import type { Mood, Receiving } from './receiving.ts';
import type { Fault } from './schedule.ts';

export const LEASE_MS = 2_000;
const RETRIES = ['50ms', '100ms', '100ms', '200ms', '200ms'];
const DELIVERY_RETRIES = ['200ms', '200ms', '500ms', '500ms', '1s', '1s', '2s', '2s'];
const STORY_TRIES = 150;
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

/** Who is told: each in another way. */
const LISTENERS = [
  { name: 'steady', ordered: true, format: 'standard' },
  { name: 'moody', ordered: true, format: 'standard', retrySchedule: DELIVERY_RETRIES },
  { name: 'loose', ordered: false, format: 'cloudevents' },
  { name: 'strict', ordered: true, format: 'standard', terminalStatuses: [400], onDead: 'hold' },
] as const;

export interface GroundOptions {
  readonly seed: number;
  readonly postgres: Postgres;
  readonly version: Version;
  readonly replicas: number;
  /** The last replica's clock is wrong. */
  readonly skew: boolean;
  readonly without: readonly string[];
  readonly settings?: Record<string, string>;
}

/** Everything a run needs but the fire: a database, wires to it, replicas, listeners with their receivers. */
export class Ground {
  readonly terms: Terms;
  /** From the promotion of a standby to the first message that was stored after it. */
  readonly recoveriesMs: number[] = [];
  /** What was done to the replicas. */
  readonly injected: Injected[] = [];
  private readonly arrivalsFile: string;

  private constructor(
    readonly options: GroundOptions,
    readonly database: Beside,
    private readonly besideWire: TcpProxy,
    /** One for each replica. */
    readonly wires: readonly TcpProxy[],
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

  static async prepare(options: GroundOptions): Promise<Ground> {
    const { postgres, version, replicas, without, seed } = options;
    const settings = { ...SETTINGS, ...options.settings };
    const url = await postgres.createDatabase(`run_${process.pid}_${Date.now()}`);
    const wires = await Promise.all(
      Array.from({ length: replicas }, () => startTcpProxy(url, { remember: false })),
    );
    const ports = await freePorts(replicas + LISTENERS.length);
    const places = wires.map((wire, index) => ({
      index,
      url: `http://127.0.0.1:${ports[index]}`,
      databaseUrl: wire.url,
      skewed: options.skew && index === replicas - 1,
      version,
    }));
    const fleet = new Fleet(places, { settings, without });
    const folder = mkdtempSync(join(tmpdir(), 'sluice-chaos-run-'));
    const receivers = await startReceivers(version, ports.slice(replicas), folder, seed);
    const retries = settings.INBOX_RETRY_SCHEDULE.split(',');
    const beside = await startTcpProxy(url, { remember: false });
    const ground = new Ground(
      options,
      new Beside(beside.url),
      beside,
      wires,
      fleet,
      receivers,
      folder,
      retries,
    );
    postgres.onMoved = (server) => ground.moveTo(Object.assign(new URL(url), { host: new URL(server).host }));
    try {
      await fleet.startFirst();
      // Before the others: they know them from the start, and nothing is posted to one that does not.
      for (const [index, listener] of LISTENERS.entries()) {
        await ground.putListener(listener, ports[replicas + index]!);
      }
      await fleet.startOthers();
    } catch (error) {
      await ground.end();
      throw error;
    }
    return ground;
  }

  get urls(): string[] {
    return this.fleet.places.map(({ url }) => url);
  }

  setMood(mood: Mood): void {
    this.tell({ listener: 'moody', mood });
  }

  /** Until nothing is left that a replica could do; answers with what is, when it takes too long. */
  async quiet(withinMs: number): Promise<number> {
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

  /** Everything that was written down; the stories of what came twice are asked for over HTTP, so before the drain. */
  async history(posted: readonly Posted[], operated: Iterable<string>): Promise<History> {
    const tables = await readTables(this.database);
    const arrivals = await this.takeArrivals();
    const came = new Map<string, number>();
    for (const { delivery } of arrivals) came.set(delivery, (came.get(delivery) ?? 0) + 1);
    const ids = new Map(tables.messages.map(({ position, id }) => [position, id]));
    const repeated = tables.deliveries.filter(({ id }) => (came.get(id) ?? 0) > 1);
    const stories = await this.stories([...new Set(repeated.map(({ message }) => ids.get(message)!))]);
    const deliveries = tables.deliveries.map((row) => ({ ...row, attempts: stories.get(row.id) ?? [] }));
    const { injected, terms } = this;
    const { logged } = this.fleet;
    return { ...tables, deliveries, arrivals, posted, operated: [...operated], logged, injected, terms };
  }

  /** Does it, and remembers when. */
  async inject(fault: Fault, place: number | undefined, strike: () => Promise<void>): Promise<void> {
    const one = { fault, place, fromMs: Date.now(), toMs: Number.POSITIVE_INFINITY };
    this.injected.push(one);
    await strike();
    one.toMs = Date.now();
  }

  async end(): Promise<void> {
    await this.fleet.end();
    this.receivers.kill('SIGKILL');
    await this.database.close();
    await Promise.all([this.besideWire, ...this.wires].map((wire) => wire.close()));
    rmSync(this.folder, { recursive: true, force: true });
  }

  private moveTo({ href }: URL): void {
    for (const wire of [this.besideWire, ...this.wires]) wire.switchTo(href);
  }

  private async stories(messages: readonly string[]): Promise<Map<string, DeliveryRow['attempts']>> {
    const stories = new Map<string, DeliveryRow['attempts']>();
    const left = [...messages];
    const ask = async () => {
      for (let id = left.pop(); id !== undefined; id = left.pop()) {
        const { deliveries } = await this.story(id);
        for (const delivery of deliveries) stories.set(delivery.id, delivery.attempts);
      }
    };
    await Promise.all(Array.from({ length: 8 }, ask));
    return stories;
  }

  /** From whichever replica answers: one may still be on its way up. */
  private async story(id: string): Promise<{ deliveries: DeliveryRow[] }> {
    for (let tries = 0; tries < STORY_TRIES; tries++) {
      const url = this.urls[tries % this.urls.length]!;
      const answer = await fetch(`${url}/v1/messages/${encodeURIComponent(id)}`).catch(() => undefined);
      if (answer?.status === 200) return (await answer.json()) as { deliveries: DeliveryRow[] };
      await pause(200);
    }
    throw new Error(`nobody tells the story of ${id}`);
  }

  private async takeArrivals() {
    const ended = once(this.receivers, 'exit');
    this.tell({ listener: '', end: true });
    await ended;
    return readArrivals(this.arrivalsFile);
  }

  private tell(what: Receiving): void {
    this.receivers.send(what);
  }

  private async putListener(
    { name, ...definition }: (typeof LISTENERS)[number],
    port: number,
  ): Promise<void> {
    const answer = await fetch(`${this.urls[0]}/v1/listeners/${name}`, {
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
    const { secret } = (await answer.json()) as { secret?: string };
    if (answer.status !== 201 || !secret) throw new Error(`no listener ${name}: ${answer.status}`);
    this.tell({ listener: name, secret });
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
