import { maxCallMs } from '../../src/config/max-call.ts';
import type { Settings } from '../../src/config/settings.ts';
import type { Listener } from '../../src/listeners/listener.ts';
import { Listeners } from '../../src/listeners/listeners.ts';
import { startApp, type TestApp } from './app.ts';
import { createDatabase, type TestDatabase } from './database.ts';
import { type Receiver, type Responder, startReceiver } from './receiver.ts';
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
export class TestCluster {
  readonly replicas: TestApp[] = [];
  private readonly receivers: Receiver[] = [];

  private constructor(
    readonly database: TestDatabase,
    private readonly environment: Record<string, string>,
    private readonly overrides: Partial<Settings>,
  ) {}

  /** `overrides`: settings that the environment does not allow; with a short lease, listeners get a timeout that fits it. */
  static async open(
    environment: Record<string, string> = {},
    replicas = 1,
    overrides: Partial<Settings> = {},
  ): Promise<TestCluster> {
    const settings = { EGRESS_ALLOW: '127.0.0.0/8', OUTBOX_POLL: '50ms', ...environment };
    const cluster = new TestCluster(await createDatabase(), settings, overrides);
    for (let n = 0; n < replicas; n++) await cluster.start();
    return cluster;
  }

  get replica(): TestApp {
    return this.replicas[0]!;
  }

  async start(environment: Record<string, string> = {}): Promise<TestApp> {
    const replica = await startApp(
      this.database,
      { ...this.environment, ...environment },
      undefined,
      this.overrides,
    );
    this.replicas.push(replica);
    return replica;
  }

  /** Stops a replica. */
  async stop(replica: TestApp): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1);
    await replica.close();
  }

  /** Removes all listeners and receivers; the replicas keep running. */
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

  /** Starts a receiver and creates a listener with its URL for the types `<name>/…`; waits until every replica knows it. */
  async listen(
    name: string,
    definition: Record<string, unknown> = {},
    answering?: Responder,
  ): Promise<Receiver & { readonly secret: string }> {
    const receiver = await startReceiver(answering);
    this.receivers.push(receiver);
    const { secret } = await this.put(name, { url: receiver.url, ...definition });
    return Object.assign(receiver, { secret: secret! });
  }

  async put(name: string, definition: Record<string, unknown>): Promise<{ secret?: string }> {
    const { outboxLease } = this.overrides;
    const isCalled = outboxLease !== undefined && definition.mode !== 'pull';
    const timeout = isCalled ? { timeout: `${maxCallMs(outboxLease)}ms` } : {};
    const body = { types: [`${name}/*`], ...timeout, ...definition };
    const response = await this.replica.call('PUT', `/v1/listeners/${name}`, { body });
    if (response.status >= 300) throw new Error(`PUT ${name}: ${response.status} ${response.text}`);
    const listed = await this.replica.call('GET', `/v1/listeners/${name}`);
    const { url = '' } = listed.body;
    for (const replica of this.replicas)
      await waitUntilKnown(replica, name, (listener) => listener.url === url);
    return response.body;
  }

  async call(method: string, path: string, body?: unknown) {
    return this.replica.call(method, path, body === undefined ? {} : { body });
  }

  /** Posts all messages in one batch, in this order; returns their ids. */
  async post(...messages: readonly Message[]): Promise<string[]> {
    const body = { messages: messages.map((message) => ({ payload: null, ...message })) };
    const response = await this.replica.call('POST', '/v1/messages/batch', { body });
    if (response.status !== 202) throw new Error(`${response.status} ${response.text}`);
    return response.body.messages.map(({ id }: { id: string }) => id);
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

/** Waits until the replica's listener cache has the listener in this state; a message posted before that may miss it. */
export async function waitUntilKnown(
  replica: TestApp,
  name: string,
  that: (listener: Listener) => boolean = () => true,
): Promise<void> {
  const listeners = replica.app.nest.get(Listeners);
  await listeners.refresh();
  await until(() => listeners.all().some((one) => one.name === name && that(one)));
}
