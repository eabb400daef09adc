import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ADMIN_KEY, CONSUME_KEY, startApp, type TestApp } from '../support/app.ts';
import { apiSettings, type BuiltService, build, ROOT, run } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';
import { createTopic, Handled, range, sluiceOf } from './topic.ts';

let database: TestDatabase;
/** For the tests themselves; consumers have replicas of their own. */
let replica: TestApp;
const services: BuiltService[] = [];
const processes: ChildProcess[] = [];

beforeAll(async () => {
  build();
  database = await createDatabase();
  replica = await startApp(database);
});
afterEach(async () => {
  for (const child of processes.splice(0)) child.kill('SIGKILL');
  for (const service of services.splice(0)) {
    service.kill();
    await service.exit();
  }
});
afterAll(async () => {
  await replica.close();
  await database.drop();
});

describe('a consumer of replicas that fail', () => {
  it('B11 handles every message once while replicas freeze, wake up, are killed and start again', async () => {
    const topic = await createTopic(replica, { partitions: 8 });
    const [a, b] = [await startReplica(), await startReplica()];
    const { sluice } = sluiceOf([a.url, b.url], { timeout: 1_000 });
    const consumer = sluice.consumer({ group: topic.group, prefetch: 40, wait: '500ms' });
    const handled = new Handled();
    const running = consumer.run((message) => handled.start(message));
    const more = async (count: number) => {
      await topic.post(count);
      await topic.committed();
    };
    await more(100);
    a.service.child.kill('SIGSTOP');
    await more(100);
    a.service.child.kill('SIGCONT');
    b.service.kill();
    await more(100);
    const restarted = await startReplica(b.port);
    a.service.child.kill('SIGTERM');
    await more(100);
    expect(await a.service.exit()).toBe(0);
    restarted.service.kill();
    await Promise.all([more(100), startReplica(a.port)]);
    await consumer.stop();
    await running;
    expect(handled.payloads).toEqual(range(500));
    for (const payloads of Object.values(handled.byKey()))
      expect(payloads).toEqual([...payloads].sort((x, y) => Number(x) - Number(y)));
  });
});

describe('a consumer process', () => {
  it('B8 loses its messages to another member when it is killed', async () => {
    const topic = await createTopic(replica, { partitions: 2, session: '2s' });
    await topic.post(60, (n) => `k-${n}`);
    const killed = startConsumer(topic.group, { WORK_MS: '20' });
    await killed.line(/ handled /);
    killed.child.kill('SIGKILL');
    const { sluice } = sluiceOf(replica.url);
    const consumer = sluice.consumer({ group: topic.group });
    const handled = new Handled();
    const running = consumer.run((message) => handled.start(message));
    await topic.committed();
    await consumer.stop();
    await running;
    const again = handled.messages.filter(({ attempt }) => attempt === 2);
    expect(again.length).toBeGreaterThan(0);
    const both = new Set([...handled.messages.map(({ id }) => id), ...killed.handled()]);
    expect(both.size).toBe(60);
  });

  it('B8 can commit nothing when it wakes up after its session, and goes on as a new member', async () => {
    const topic = await createTopic(replica, { partitions: 2, session: '6s' });
    await topic.post(60, (n) => `k-${n}`);
    const frozen = startConsumer(topic.group, { WORK_MS: '20' });
    await frozen.line(/ handled /);
    frozen.child.kill('SIGSTOP');
    const { sluice, names } = sluiceOf(replica.url);
    const consumer = sluice.consumer({ group: topic.group });
    const handled = new Handled();
    const running = consumer.run((message) => handled.start(message));
    await topic.committed();
    frozen.child.kill('SIGCONT');
    await frozen.line(/ consumer\.member-lost /);
    await until(async () => (await topic.state()).members.length === 2);
    await topic.post(40, (n) => `k-${n}`);
    await topic.committed();
    frozen.child.kill('SIGTERM');
    expect(await frozen.ended).toEqual([0, null]);
    await consumer.stop();
    await running;
    const both = new Set([...handled.messages.map(({ id }) => id), ...frozen.handled()]);
    expect(both.size).toBe(100);
    expect(names().filter((name) => name !== 'consumer.joined')).toEqual([]);
  });

  it('B8 loses what it has when it freezes, also while its poll is open', async () => {
    const topic = await createTopic(replica, { partitions: 2, session: '6s' });
    const { sluice } = sluiceOf(replica.url);
    const consumer = sluice.consumer({ group: topic.group });
    const handled = new Handled();
    const running = consumer.run((message) => handled.start(message));
    const frozen = startConsumer(topic.group, { WORK_MS: '600000', NAME: 'frozen' });
    const ofFrozen = async () =>
      (await topic.state()).members.find(({ name }: { name: string | null }) => name === 'frozen');
    await until(async () => (await ofFrozen())?.partitions === 1);
    await topic.post(20, (n) => `k-${n}`);
    await until(async () => (await ofFrozen()).inFlight > 0);
    const pollOf = async () =>
      (await database.query(`SELECT poll FROM group_member WHERE name = 'frozen'`))[0]!.poll;
    const before = await pollOf();
    await until(async () => (await pollOf()) !== before);
    frozen.child.kill('SIGSTOP');
    await topic.committed();
    expect(handled.payloads).toEqual(range(20));
    await consumer.stop();
    await running;
  });

  it('B8 finishes what it started when it is told to stop, and leaves', async () => {
    const topic = await createTopic(replica, { partitions: 2 });
    await topic.post(200, (n) => `k-${n}`);
    const stopped = startConsumer(topic.group, { WORK_MS: '20' });
    await stopped.line(/ handled /);
    stopped.child.kill('SIGTERM');
    expect(await stopped.ended).toEqual([0, null]);
    const { lag, members } = await topic.state();
    expect([lag, members]).toEqual([200 - stopped.handled().length, []]);
  });
});

interface ConsumerProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<unknown[]>;
  line(pattern: RegExp): Promise<unknown>;
  /** The ids of the messages it handled. */
  handled(): string[];
}

function startConsumer(group: string, settings: Record<string, string>): ConsumerProcess {
  const child = spawn(process.execPath, ['deploy/compose/consumer.mjs'], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      SLUICE_URLS: replica.url,
      API_KEY: CONSUME_KEY,
      GROUP: group,
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  processes.push(child);
  const lines: string[] = [];
  createInterface({ input: child.stdout! }).on('line', (line) => lines.push(line));
  return {
    child,
    ended: once(child, 'close'),
    line: (pattern) => until(() => lines.find((line) => pattern.test(line))),
    handled: () => lines.flatMap((line) => / handled .* id=(\S+)/.exec(line)?.[1] ?? []),
  };
}

async function startReplica(port = '0'): Promise<{ service: BuiltService; url: string; port: string }> {
  const keys = `admin=admin:${ADMIN_KEY},consume=consume:${CONSUME_KEY}`;
  const service = run(apiSettings(database.url, keys, port));
  services.push(service);
  const url = await service.url();
  return { service, url, port: new URL(url).port };
}
