import { Agent, request as call } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ADMIN_KEY } from '../support/app.ts';
import { type BuiltService, build, run } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { type LoadBalancer, startLoadBalancer } from '../support/load-balancer.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const CLIENTS = 6;
const RESTARTS = 10;
/** A steady load, not a flood: the restarts need the machine as well. */
const THINK_MS = 50;
const TYPE = 'urn:ekp:events/candidate-applied';

interface ApiResponse {
  readonly path: string;
  readonly status: number | undefined;
  readonly text: string;
  /** The replica announced that it closes the connection. */
  readonly parted: boolean;
}

interface Serving {
  readonly service: BuiltService;
  readonly url: string;
}

let database: TestDatabase;
let balancer: LoadBalancer;
let receiver: Receiver;
const services: BuiltService[] = [];

beforeAll(async () => {
  build();
  // A call takes a while, so that some are in flight at a stop.
  receiver = await startReceiver(
    (_received, response) => void setTimeout(() => response.writeHead(204).end(), 30),
  );
});
beforeEach(async () => {
  database = await createDatabase();
  balancer = await startLoadBalancer();
});
afterEach(async () => {
  for (const service of services) service.child.kill('SIGKILL');
  await Promise.all(services.splice(0).map((service) => service.exit()));
  await balancer.close();
  await database.drop();
});
afterAll(() => receiver.close());

describe('ten rolling restarts under load', () => {
  it('fail no request, end with 0, and give back what was in flight uncharged', async () => {
    const grace = { DRAIN_GRACE: '1s' };
    const first = await start(grace);
    const listener = { mode: 'webhook', types: ['urn:*'], url: receiver.url };
    expect((await ask(new Agent(), 'PUT', '/v1/listeners/all', listener)).status).toBe(201);
    // A replica that starts later knows the listener from its start.
    const serving = [first, await start(grace)];
    const load = startLoad();

    const gone: BuiltService[] = [];
    for (let restart = 0; restart < RESTARTS; restart++) gone.push(await replace(serving, grace));
    expect(await Promise.all(gone.map((service) => service.exit()))).toEqual(Array(RESTARTS).fill(0));

    const { failures, ids, partings } = await load.stop();
    expect(failures).toEqual([]);
    expect(ids.length).toBeGreaterThan(100);
    // Each of them got requests while it was stopping, over connections that were kept open.
    expect(partings).toBeGreaterThanOrEqual(RESTARTS);
    await until(async () => {
      const [row] = await database.query<{ open: number }>(
        `SELECT (SELECT count(*) FROM inbox WHERE settled_at IS NULL)::int
              + (SELECT count(*) FROM outbox WHERE settled_at IS NULL)::int AS open`,
      );
      return row!.open === 0;
    });
    for (const { service } of serving) service.child.kill('SIGTERM');
    expect(await Promise.all(serving.map(({ service }) => service.exit()))).toEqual([0, 0]);

    expect(await database.query('SELECT status, attempt, count(*)::int FROM inbox GROUP BY 1, 2')).toEqual([
      { status: 'finished', attempt: 1, count: ids.length },
    ]);
    expect(await database.query('SELECT status, attempt, count(*)::int FROM outbox GROUP BY 1, 2')).toEqual([
      { status: 'finished', attempt: 1, count: ids.length },
    ]);
    expect(await database.query('SELECT * FROM attempt')).toEqual([]);
    expect(
      await database.query(`SELECT queue, lane FROM lane WHERE leased_until > '-infinity' OR crashes > 0`),
    ).toEqual([]);
    expect(receiver.received).toHaveLength(ids.length);
  });

  it('would fail some requests without the time between "not ready" and the end', async () => {
    const none = { DRAIN_GRACE: '0s' };
    const serving = [await start(none), await start(none)];
    const load = startLoad();
    await until(() => load.asked() > CLIENTS * 4);
    for (let restart = 0; restart < 3 && load.failed() === 0; restart++) await replace(serving, none);
    expect((await load.stop()).failures).not.toEqual([]);
  });
});

async function start(settings: Record<string, string>): Promise<Serving> {
  const service = run({
    DATABASE_URL: database.url,
    API_KEYS: `admin=admin:${ADMIN_KEY}`,
    HOST: '127.0.0.1',
    MIGRATIONS: 'off',
    EGRESS_ALLOW: '127.0.0.0/8',
    LOG_LEVEL: 'warn',
    SECRETS_KEYS: `k1=${Buffer.alloc(32, 1).toString('base64')}`,
    ...settings,
  });
  services.push(service);
  const url = await service.url();
  await balancer.add(url);
  return { service, url };
}

/** Starts a new one, then stops the oldest, which may still be stopping when the next one starts. */
async function replace(serving: Serving[], settings: Record<string, string>): Promise<BuiltService> {
  serving.push(await start(settings));
  const { service, url } = serving.shift()!;
  service.child.kill('SIGTERM');
  await balancer.removed(url);
  return service;
}

/** Clients that keep their connection and send one request after the other: a post, then a read of it. */
function startLoad() {
  const failures: ApiResponse[] = [];
  const ids: string[] = [];
  let partings = 0;
  let stopping = false;
  const client = async (number: number) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const asked = async (wanted: number, ...request: [method: string, path: string, body?: unknown]) => {
      const response = await ask(agent, ...request);
      if (response.status !== wanted) failures.push(response);
      if (response.parted) partings += 1;
    };
    for (let n = 0; !stopping; n++) {
      const id = `${number}-${n}`;
      await asked(202, 'POST', '/v1/messages', {
        id,
        type: TYPE,
        key: `key-${number}-${n % 5}`,
        payload: { candidateId: id, name: 'Ada', vacancyId: 'v' },
      });
      ids.push(id);
      await asked(200, 'GET', `/v1/candidates/${id}?after=${id}&wait=30s`);
      await pause(THINK_MS);
    }
    agent.destroy();
  };
  const running = Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
  return {
    asked: () => ids.length,
    failed: () => failures.length,
    async stop() {
      stopping = true;
      await running;
      return { failures, ids, partings };
    },
  };
}

function ask(agent: Agent, method: string, path: string, body?: unknown): Promise<ApiResponse> {
  return new Promise((resolve) => {
    const headers = {
      authorization: `Bearer ${ADMIN_KEY}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    };
    const request = call(`${balancer.url}${path}`, { method, agent, headers }, async (response) => {
      const parted = response.headers.connection === 'close';
      resolve({ path, status: response.statusCode, text: await textOf(response), parted });
    });
    request.on('error', (error) => resolve({ path, status: undefined, text: error.message, parted: false }));
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
