import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import type pg from 'pg';
import type { Loop, Next } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { closeClient, destroyConnection } from '../database/close-client.ts';
import { Database } from '../database/database.ts';
import { LOG, type Log } from '../telemetry/logger.ts';

/**
 * Lanes of the inbox or the outbox. What waits for polls of consumers is announced in the same way, under other queue names:
 * then these are numbers of partitions, groups or members. An empty set: it is not known which.
 */
export type Lanes = ReadonlySet<number>;

/** Wakes the workers of a queue, with the lanes that were just written to. */
@Injectable()
export class Wakeups {
  private readonly handlers = new Map<string, ((lanes: Lanes) => void)[]>();
  private readonly localHandlers: ((queue: string, lanes: Lanes) => void)[] = [];

  /** The handler is called for every announced write to the queue, by this process or another replica. */
  on(queue: string, handler: (lanes: Lanes) => void): void {
    this.handlers.set(queue, [...(this.handlers.get(queue) ?? []), handler]);
  }

  /** The handler is called only for writes of this process, to notify the other replicas. */
  onLocalWrite(handler: (queue: string, lanes: Lanes) => void): void {
    this.localHandlers.push(handler);
  }

  /** Called after the commit of a write: wakes the workers of this replica, and by NOTIFY those of the others. */
  announce(queue: string, lanes: Lanes): void {
    this.wake(queue, lanes);
    for (const notify of this.localHandlers) notify(queue, lanes);
  }

  /** Wakes the workers of this replica only. */
  wake(queue: string, lanes: Lanes): void {
    for (const wake of this.handlers.get(queue) ?? []) wake(lanes);
  }
}

/** One channel for all queues of a database; the payload names the queues and their lanes. */
export const CHANNEL = 'sluice_written';

/** Sent on its own, never in the transaction that writes: there it would serialise all commits (measured: 4.3 ×). */
export const NOTIFY = `SELECT pg_notify('${CHANNEL}', $1)`;

/** Notifications are sent at most this often: a second one right after the first would announce the same work. */
const THROTTLE_MS = 10;
/** LISTEN and the ping take the server no time; a connection without a reply for this long is dropped. */
const REPLY_TIMEOUT_MS = 5_000;
const RECONNECT_MS = 1_000;
/** A connection that only listens does not notice that its server is gone, so it is pinged. */
const PING_MS = 5_000;

/**
 * Notifies the other replicas which lanes were written to, and listens for their notifications. This only saves time:
 * polling alone finds everything, and is the only way behind a pooler in transaction mode.
 */
@Injectable()
export class Notifications implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly written = new Map<string, Set<number>>();
  private timer: NodeJS.Timeout | undefined;
  private client: pg.Client | undefined;
  private pingAtMs = 0;
  private readonly listening: Loop;
  private readonly enabled: boolean;
  private readonly sender = `${process.pid}.${Math.random().toString(36).slice(2, 8)}`;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly database: Database,
    private readonly wakeups: Wakeups,
    loops: Loops,
  ) {
    this.enabled = settings.databasePooler === 'none';
    this.listening = loops.create('notifications', RECONNECT_MS, (signal) => this.pass(signal));
    if (this.enabled) wakeups.onLocalWrite((queue, lanes) => this.queueNotify(queue, lanes));
  }

  onApplicationBootstrap(): void {
    if (this.enabled) this.listening.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    clearTimeout(this.timer);
    const stopped = this.listening.stop();
    // Closed first: a pass may be waiting for a reply on it.
    if (this.client) await closeClient(this.client);
    await stopped;
    if (this.client) await closeClient(this.client);
  }

  /** Writes within the throttle are announced together. */
  private queueNotify(queue: string, lanes: ReadonlySet<number>): void {
    const known = this.written.get(queue) ?? new Set();
    for (const lane of lanes) known.add(lane);
    this.written.set(queue, known);
    this.timer ??= setTimeout(() => void this.flush(), THROTTLE_MS);
  }

  private async flush(): Promise<void> {
    const payload = [...this.written].map(([queue, lanes]) => [queue, ...(lanes.size > 500 ? [] : lanes)]);
    this.written.clear();
    this.timer = undefined;
    try {
      await this.database.query(NOTIFY, [JSON.stringify([this.sender, ...payload])]);
    } catch {
      // The other replicas find the work by polling.
    }
  }

  private async pass(signal: AbortSignal): Promise<Next> {
    if (!this.client) await this.listen(signal);
    else if (performance.now() >= this.pingAtMs) await this.ping(this.client);
    return 'idle';
  }

  private async listen(signal: AbortSignal): Promise<void> {
    const client = this.database.standaloneClient('sluice listen');
    const drop = () => this.drop(client);
    client.on('error', drop);
    client.on('end', drop);
    client.on('notification', ({ payload }) => this.receive(payload));
    // Without this, stopping the replica would wait for a server that has gone silent. Not `end()`: for a client that is
    // still connecting, node-postgres then never settles `connect()`.
    const destroy = () => destroyConnection(client);
    signal.addEventListener('abort', destroy, { once: true });
    try {
      await client.connect();
      await query(client, `LISTEN ${CHANNEL}`);
      this.client = client;
      this.pingAtMs = performance.now() + PING_MS;
    } catch (error) {
      drop();
      this.log.debug({ event: 'lanes.listen-failed', error }, 'polling until LISTEN works again');
    } finally {
      signal.removeEventListener('abort', destroy);
    }
  }

  private async ping(client: pg.Client): Promise<void> {
    this.pingAtMs = performance.now() + PING_MS;
    await query(client, 'SELECT').catch(() => this.drop(client));
  }

  private drop(client: pg.Client): void {
    if (this.client === client) this.client = undefined;
    void closeClient(client);
  }

  private receive(payload: string | undefined): void {
    const notification = parsePayload(payload);
    if (!notification || notification.sender === this.sender) return;
    for (const [queue, ...lanes] of notification.queues) this.wakeups.wake(queue, new Set(lanes));
  }
}

async function query(client: pg.Client, text: string): Promise<void> {
  await client.query({ text, query_timeout: REPLY_TIMEOUT_MS } as pg.QueryConfig);
}

type QueueLanes = readonly [queue: string, ...lanes: number[]];

/** Every client of the database can send on the channel: payloads of another form are ignored. */
function parsePayload(payload: string | undefined): { sender: string; queues: QueueLanes[] } | undefined {
  try {
    const [sender, ...queues] = JSON.parse(payload ?? '') as [string, ...QueueLanes[]];
    const wellFormed = queues.every(
      ([queue, ...lanes]) => typeof queue === 'string' && lanes.every(Number.isInteger),
    );
    return wellFormed ? { sender, queues } : undefined;
  } catch {
    return undefined;
  }
}
