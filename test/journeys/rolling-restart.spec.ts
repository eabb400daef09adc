import { Agent, request as call } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ADMIN_KEY } from '../support/app.ts';
import { type BuiltService, build, run } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { type LoadBalancer, startLoadBalancer } from '../support/load-balancer.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const CLIENTS = 6;
const ROUNDS = 5;
/** Steady, not a flood: it is the restarts that are tried, and they need the machine as well. */
const THINK_MS = 25;
const TYPE = 'urn:ekp:events/candidate-applied';

interface Failure {
  readonly path: string;
  readonly status: number | undefined;
  readonly text: string;
}

let database: TestDatabase;
let balancer: LoadBalancer;
let receiver: Receiver;
const services: BuiltService[] = [];

beforeAll(async () => {
  build();
  database = await createDatabase();
  balancer = await startLoadBalancer();
  // A call takes a while, so that a stop finds some in flight.
  receiver = await startReceiver(
    (_received, response) => void setTimeout(() => response.writeHead(204).end(), 30),
  );
}, 120_000);
afterAll(async () => {
  for (const service of services) service.child.kill('SIGKILL');
  await Promise.all(services.map((service) => service.exit()));
  await balancer.close();
  await receiver.close();
  await database.drop();
});

describe('ten rolling restarts under load', () => {
  it('fail no request, end with 0, and give back what was in flight uncharged', async () => {
    const first = await start();
    const created = await ask(new Agent(), 'PUT', '/v1/listeners/all', {
      mode: 'webhook',
      types: ['urn:*'],
      url: receiver.url,
    });
    expect(created.status).toBe(201);
    // One that starts later knows the listener from its start.
    let serving = [first, await start()];
    const load = startLoad();

    for (let round = 0; round < ROUNDS; round++) {
      const fresh = await Promise.all([start(), start()]);
      for (const { service } of serving) service.child.kill('SIGTERM');
      await Promise.all(serving.map(({ url }) => balancer.removed(url)));
      expect(await Promise.all(serving.map(({ service }) => service.exit()))).toEqual([0, 0]);
      serving = fresh;
    }

    const { failures, ids } = await load.stop();
    expect(failures).toEqual([]);
    expect(ids.length).toBeGreaterThan(100);
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
  }, 240_000);
});

async function start(): Promise<{ service: BuiltService; url: string }> {
  const service = run({
    DATABASE_URL: database.url,
    API_KEYS: `admin=admin:${ADMIN_KEY}`,
    HOST: '127.0.0.1',
    MIGRATIONS: 'off',
    EGRESS_ALLOW: '127.0.0.0/8',
    DRAIN_GRACE: '1s',
    LOG_LEVEL: 'warn',
    SECRETS_KEYS: `k1=${Buffer.alloc(32, 1).toString('base64')}`,
  });
  services.push(service);
  const url = await service.url();
  await balancer.add(url);
  return { service, url };
}

/** Clients that keep their connection and ask one thing after the other: a post, then what became of it. */
function startLoad() {
  const failures: Failure[] = [];
  const ids: string[] = [];
  let stopping = false;
  const client = async (number: number) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let n = 0; !stopping; n++) {
      const id = `${number}-${n}`;
      const body = {
        id,
        type: TYPE,
        key: `key-${number}-${n % 5}`,
        payload: { candidateId: id, name: 'Ada', vacancyId: 'v' },
      };
      const posted = await ask(agent, 'POST', '/v1/messages', body);
      if (posted.status !== 202) failures.push(posted);
      ids.push(id);
      const read = await ask(agent, 'GET', `/v1/candidates/${id}?after=${id}&wait=10s`);
      if (read.status !== 200) failures.push(read);
      await pause(THINK_MS);
    }
    agent.destroy();
  };
  const running = Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
  return {
    async stop() {
      stopping = true;
      await running;
      return { failures, ids };
    },
  };
}

function ask(agent: Agent, method: string, path: string, body?: unknown): Promise<Failure> {
  return new Promise((resolve) => {
    const headers = {
      authorization: `Bearer ${ADMIN_KEY}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    };
    const request = call(`${balancer.url}${path}`, { method, agent, headers }, async (answer) => {
      resolve({ path, status: answer.statusCode, text: await textOf(answer) });
    });
    request.on('error', (error) => resolve({ path, status: undefined, text: error.message }));
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
