import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import pg from 'pg';
import type { Loop, Next } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Database } from '../database/database.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { CHANNEL, NOTIFY } from './notifications.sql.ts';
import { Wakeups } from './wakeups.ts';

/** Not more often than this: a replica that is told twice in a row finds the same work. */
const THROTTLE_MS = 10;
/** It takes the server no time. */
const LISTEN_MS = 5_000;
const RECONNECT_MS = 1_000;

/**
 * Tells the other replicas which lanes were written to, and hears it from them. Only a help: polling alone finds
 * everything, and is all there is behind a pooler in transaction mode.
 */
@Injectable()
export class Notifications implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly written = new Map<string, Set<number>>();
  private timer: NodeJS.Timeout | undefined;
  private client: pg.Client | undefined;
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
    this.listening = loops.create('notifications', RECONNECT_MS, () => this.listen());
    if (this.enabled) wakeups.onWrittenHere((queue, lanes) => this.tell(queue, lanes));
  }

  onApplicationBootstrap(): void {
    if (this.enabled) this.listening.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    clearTimeout(this.timer);
    await this.listening.stop();
    await this.client?.end().catch(() => undefined);
  }

  /** What is written within the throttle is told together. */
  private tell(queue: string, lanes: ReadonlySet<number>): void {
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
      // They poll.
    }
  }

  private async listen(): Promise<Next> {
    if (this.client) return 'idle';
    const client = this.database.standaloneClient('sluice listen');
    const drop = () => {
      if (this.client === client) this.client = undefined;
      client.end().catch(() => undefined);
    };
    client.on('error', drop);
    client.on('end', drop);
    client.on('notification', ({ payload }) => this.hear(payload));
    try {
      await client.connect();
      // A server that goes silent now would be waited for by whoever stops this replica.
      await client.query({ text: `LISTEN ${CHANNEL}`, query_timeout: LISTEN_MS } as pg.QueryConfig);
      this.client = client;
    } catch (error) {
      drop();
      this.log.debug({ event: 'lanes.listen-failed', error }, 'polling until LISTEN works again');
    }
    return 'idle';
  }

  private hear(payload: string | undefined): void {
    const told = toldIn(payload);
    if (!told || told.sender === this.sender) return;
    for (const [queue, ...lanes] of told.queues) this.wakeups.writtenElsewhere(queue, new Set(lanes));
  }
}

type Told = readonly [queue: string, ...lanes: number[]];

/** Whoever may connect to the database may send on the channel: what is not ours is not heard. */
function toldIn(payload: string | undefined): { sender: string; queues: Told[] } | undefined {
  try {
    const [sender, ...queues] = JSON.parse(payload ?? '') as [string, ...Told[]];
    const wellFormed = queues.every(
      ([queue, ...lanes]) => typeof queue === 'string' && lanes.every(Number.isInteger),
    );
    return wellFormed ? { sender, queues } : undefined;
  } catch {
    return undefined;
  }
}
