import { maxCallMs } from '../../src/config/max-call.ts';
import type { Settings } from '../../src/config/settings.ts';
import type { Listener } from '../../src/listeners/listener.ts';
import { Listeners } from '../../src/listeners/listeners.ts';
import { startApp, type TestApp } from './app.ts';
import { createDatabase, type TestDatabase } from './database.ts';
import { type Answering, type Receiver, startReceiver } from './receiver.ts';
import { until } from './until.ts';

export interface Delivery {
  readonly id: string;
  readonly listener: string;
  readonly status: string;
  readonly attempt: number;
  readonly sequence: number;
  readonly error: string | null;
  readonly attempts: readonly {
    readonly attempt: number;
    readonly status: number | null;
    readonly error: string;
  }[];
}

export interface Message {
  readonly type: string;
  readonly key?: string;
  readonly payload?: unknown;
  readonly id?: string;
}

/** A database, replicas on it, and receivers that replicas deliver to. */
export class Stage {
  readonly replicas: TestApp[] = [];
  private readonly receivers: Receiver[] = [];

  private constructor(
    readonly database: TestDatabase,
    private readonly environment: Record<string, string>,
    private readonly beyond: Partial<Settings>,
  ) {}

  /** `beyond`: settings that no environment may have; with a short lease, listeners have a timeout that it covers. */
  static async open(
    environment: Record<string, string> = {},
    replicas = 1,
    beyond: Partial<Settings> = {},
  ): Promise<Stage> {
    const settings = { EGRESS_ALLOW: '127.0.0.0/8', OUTBOX_POLL: '50ms', ...environment };
    const stage = new Stage(await createDatabase(), settings, beyond);
    for (let n = 0; n < replicas; n++) await stage.start();
    return stage;
  }

  get replica(): TestApp {
    return this.replicas[0]!;
  }

  async start(environment: Record<string, string> = {}): Promise<TestApp> {
    const replica = await startApp(
      this.database,
      { ...this.environment, ...environment },
      undefined,
      this.beyond,
    );
    this.replicas.push(replica);
    return replica;
  }

  /** Drains one. */
  async stop(replica: TestApp): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1);
    await replica.close();
  }

  /** Listeners go, and receivers; the replicas stay. */
  async clear(): Promise<void> {
    for (const { name } of (await this.replica.call('GET', '/v1/listeners?limit=500')).body.items)
      await this.replica.call('DELETE', `/v1/listeners/${name}`);
    for (const receiver of this.receivers.splice(0)) await receiver.close();
  }

  async close(): Promise<void> {
    for (const receiver of this.receivers.splice(0)) await receiver.close();
    for (const replica of this.replicas.splice(0)) await replica.close();
    await this.database.drop();
  }

  /** A receiver, and a listener at it for the types `<name>/…`, known to every replica. */
  async listen(
    name: string,
    definition: Record<string, unknown> = {},
    answering?: Answering,
  ): Promise<Receiver & { readonly secret: string }> {
    const receiver = await startReceiver(answering);
    this.receivers.push(receiver);
    const { secret } = await this.put(name, { url: receiver.url, ...definition });
    return Object.assign(receiver, { secret: secret! });
  }

  async put(name: string, definition: Record<string, unknown>): Promise<{ secret?: string }> {
    const { outboxLease } = this.beyond;
    const timeout = outboxLease === undefined ? {} : { timeout: `${maxCallMs(outboxLease)}ms` };
    const body = { types: [`${name}/*`], ...timeout, ...definition };
    const answer = await this.replica.call('PUT', `/v1/listeners/${name}`, { body });
    if (answer.status >= 300) throw new Error(`PUT ${name}: ${answer.status} ${answer.text}`);
    const listed = await this.replica.call('GET', `/v1/listeners/${name}`);
    const { url } = listed.body;
    for (const replica of this.replicas) await known(replica, name, (listener) => listener.url === url);
    return answer.body;
  }

  async call(method: string, path: string, body?: unknown) {
    return this.replica.call(method, path, body === undefined ? {} : { body });
  }

  /** All in one commit, in this order; answers with their ids. */
  async post(...messages: readonly Message[]): Promise<string[]> {
    const body = { messages: messages.map((message) => ({ payload: null, ...message })) };
    const answer = await this.replica.call('POST', '/v1/messages/batch', { body });
    if (answer.status !== 202) throw new Error(`${answer.status} ${answer.text}`);
    return answer.body.messages.map(({ id }: { id: string }) => id);
  }

  async deliveries(message: string): Promise<Delivery[]> {
    return (await this.replica.call('GET', `/v1/messages/${message}`)).body.deliveries;
  }

  /** The first delivery of a message, once it has that status. */
  async delivery(message: string | undefined, status: string): Promise<Delivery> {
    let last: Delivery | undefined;
    const found = async () => {
      [last] = await this.deliveries(message!);
      return last?.status === status ? last : undefined;
    };
    return until(found).catch((error) => {
      throw new Error(`${error.message}\n${JSON.stringify(last)}`);
    }) as Promise<Delivery>;
  }

  /** How many deliveries of a listener have each status. */
  async counts(listener: string): Promise<Record<string, number>> {
    const rows = await this.database.query<{ status: string; count: number }>(
      `SELECT outbox.status, count(*)::int AS count FROM outbox JOIN listener ON listener.number = outbox.listener
       WHERE listener.name = $1 GROUP BY outbox.status`,
      [listener],
    );
    return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
  }

  async numberOf(listener: string): Promise<number> {
    const rows = await this.database.query<{ number: number }>(
      'SELECT number FROM listener WHERE name = $1',
      [listener],
    );
    return rows[0]!.number;
  }
}

/** The replica knows a listener, and knows that of it: what was posted a moment before is not judged by it. */
export async function known(
  replica: TestApp,
  name: string,
  that: (listener: Listener) => boolean = () => true,
): Promise<void> {
  const listeners = replica.app.nest.get(Listeners);
  await listeners.refresh();
  await until(() => listeners.all().some((one) => one.name === name && that(one)));
}
