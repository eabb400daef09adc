import { afterEach, describe, expect, it } from '@jest/globals';
import { type Queue, type QueueMessage, Reject, Retry, Sluice } from '../../packages/client/src/index.ts';
import { CONSUME_KEY, PRODUCE_KEY, type TestApp } from '../support/app.ts';
import { everyFault, type FaultProxy, faultProxiesPerTest, missingFaults } from '../support/fault-proxy.ts';
import { sharedReplicas } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';
import { gate, range, sluiceOf } from './topic.ts';

const { database, replicas } = sharedReplicas(2);
let listeners = 0;
const queues: Queue[] = [];
// Before the proxies are closed: hooks run in the order in which they are registered.
afterEach(() => Promise.all(queues.splice(0).map((queue) => queue.stop({ timeout: 0 }))));
const startProxy = faultProxiesPerTest();

const urls = () => replicas.map(({ url }) => url);

/** A pull listener with messages whose payloads count from 0. */
async function createQueue(count: number, definition: object = {}, key = (n: number) => `k-${n % 10}`) {
  listeners += 1;
  const name = `notifications-${listeners}`;
  const [replica] = replicas as [TestApp];
  const body = { mode: 'pull', types: [name], retrySchedule: ['1ms', '1ms'], ...definition };
  const put = await replica.call('PUT', `/v1/listeners/${name}`, { body });
  expect([put.status, put.body.errors]).toEqual([201, undefined]);
  const messages = range(count).map((n) => ({ type: name, key: key(n), payload: n }));
  expect((await replica.call('POST', '/v1/messages/batch', { body: { messages } })).status).toBe(202);
  const statuses = async (): Promise<Record<string, number>> => {
    const rows = await database.query<{ status: string; count: number }>(
      `SELECT outbox.status, count(*)::int AS count FROM outbox JOIN listener ON listener.number = outbox.listener
       WHERE listener.name = $1 GROUP BY outbox.status`,
      [name],
    );
    return Object.fromEntries(rows.map((row) => [row.status, row.count]));
  };
  const errors = async () => {
    const { body } = await replica.call('GET', `/v1/dead-letters?listener=${name}&limit=500`);
    return body.items.map(({ error }: { error: string }) => error).sort();
  };
  return {
    name,
    errors,
    ended: (wanted: Record<string, number>) =>
      until(async () => JSON.stringify(await statuses()) === JSON.stringify(wanted)),
  };
}

function queueOf(name: string, to: string[] = urls(), timeout = 2_000) {
  const { sluice, events, names } = sluiceOf(to, { timeout });
  const queue = sluice.queue(name);
  queues.push(queue);
  return Object.assign(queue, { events, names });
}

const proxyTo = (index: number, next?: FaultProxy['next']) => startProxy(replicas[index]!.url, next);

describe('a worker of a queue', () => {
  it('B12 handles every message once, some at a time, one of a key at a time, and acknowledges', async () => {
    const { name, ended } = await createQueue(300);
    const queue = queueOf(name);
    const seen: QueueMessage<number>[] = [];
    let [running, maxRunning] = [0, 0];
    const ran = queue.run<number>(
      async (message) => {
        seen.push(message);
        running += 1;
        maxRunning = Math.max(maxRunning, running);
        await new Promise(setImmediate);
        running -= 1;
      },
      { concurrency: 7 },
    );
    await ended({ finished: 300 });
    await queue.stop();
    await ran;
    expect(seen.map(({ payload }) => payload).sort((a, b) => a - b)).toEqual(range(300));
    for (const key of range(10)) {
      const ofKey = seen.filter((message) => message.key === `k-${key}`);
      expect(ofKey.map(({ payload, sequence }) => [payload, sequence])).toEqual(
        range(30).map((n) => [n * 10 + key, n + 1]),
      );
    }
    expect(maxRunning).toBe(7);
    expect(seen[0]).toMatchObject({ type: name, attempt: 1, headers: {}, timestamp: expect.any(String) });
    expect(seen[0]).not.toHaveProperty('lease');
  });

  it('lets the handler reject, retry later or fail: dead letter, next attempt, dead letter at last', async () => {
    const { name, errors, ended } = await createQueue(4, {}, (n) => `k-${n}`);
    const queue = queueOf(name);
    const attempts: Record<number, number[]> = {};
    void queue.run<number>(({ payload, attempt }) => {
      attempts[payload] ??= [];
      attempts[payload].push(attempt);
      if (payload === 1) throw new Reject('the user has blocked us');
      if (payload === 2 && attempt === 1) throw new Retry('1ms', 'too many requests');
      if (payload === 3) throw new Error('no connection');
    });
    await ended({ dead: 2, finished: 2 });
    expect(attempts).toEqual({ 0: [1], 1: [1], 2: [1, 2], 3: [1, 2, 3] });
    expect(await errors()).toEqual([
      expect.stringContaining('Error: no connection'),
      expect.stringContaining('the user has blocked us'),
    ]);
    expect(queue.names().filter((event) => event === 'queue.handler-failed')).toHaveLength(5);
  });

  it('goes on by the schedule when a Retry says no time, and reports it', async () => {
    const { name, ended } = await createQueue(2, {}, (n) => `k-${n}`);
    const queue = queueOf(name);
    const { opened, open } = gate();
    const attempts: number[] = [];
    const running = queue.run<number>(async ({ payload, attempt }) => {
      attempts.push(attempt);
      // Keeps the run from its end, where it would wait for the handlers.
      if (payload === 0) return opened;
      if (attempt === 1) throw new Retry('NaNs' as never);
      if (attempt === 2) throw new Retry('100d');
    });
    await until(() => attempts.length === 4);
    open();
    await ended({ finished: 2 });
    expect(queue.events.filter(({ event }) => event === 'queue.retry-invalid')).toEqual([
      expect.objectContaining({ detail: expect.stringContaining('NaNs') }),
      expect.objectContaining({ detail: expect.stringContaining('100d') }),
    ]);
    await queue.stop();
    await running;
  });

  it('extends leases by as much as the listener gives', async () => {
    const { name, ended } = await createQueue(1, { lease: '2s' });
    const proxy = await proxyTo(0);
    const { opened, open } = gate();
    void queueOf(name, [proxy.url]).run(() => opened);
    const extensions = () =>
      proxy.requests.flatMap(({ path, body }) =>
        path.endsWith('/acknowledge')
          ? (JSON.parse(body).extend ?? []).map(({ by }: { by: string }) => by)
          : [],
      );
    await until(() => extensions().length === 2);
    open();
    await ended({ finished: 1 });
    expect(new Set(extensions())).toEqual(new Set(['2000ms']));
  });

  it('extends the lease of what takes longer', async () => {
    const { name, ended } = await createQueue(3, { lease: '1s' }, (n) => `k-${n}`);
    const proxy = await proxyTo(0);
    const queue = queueOf(name, [proxy.url]);
    const attempts: number[] = [];
    const extensions = () => proxy.requests.filter(({ body }) => /"extend":\[\{/.test(body)).length;
    void queue.run(
      async ({ attempt }) => {
        attempts.push(attempt);
        // The first in time for a lease of a second, each further one after a third of 1.2 s.
        await until(() => extensions() >= 6);
      },
      { lease: '1200ms' },
    );
    await ended({ finished: 3 });
    expect([attempts, queue.names()]).toEqual([[1, 1, 1], []]);
  });

  it('aborts the handler of a message that somebody else has', async () => {
    const { name, ended } = await createQueue(1, { lease: '1s' });
    let isLate = true;
    const proxy = await proxyTo(0, ({ body }) =>
      isLate && body.includes('"extend":[{') ? { status: 503 } : 'pass',
    );
    const [late, other] = [queueOf(name, [proxy.url]), queueOf(name)];
    const reasons: unknown[] = [];
    void late.run(
      async (_message, { signal }) => {
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        reasons.push(signal.reason);
      },
      { concurrency: 1, lease: '1s' },
    );
    await until(() => (proxy.faults.get('503') ?? 0) > 0);
    const { opened, open } = gate();
    const attempts: number[] = [];
    void other.run(
      async ({ attempt }) => {
        attempts.push(attempt);
        await opened;
      },
      { lease: '1s' },
    );
    await until(() => attempts.length === 1);
    isLate = false;
    await until(() => reasons.length === 1);
    expect(reasons).toMatchObject([{ type: 'urn:sluice:client/lease-lost' }]);
    open();
    await ended({ finished: 1 });
    expect([attempts, late.names()]).toEqual([[2], expect.arrayContaining(['queue.lease-lost'])]);
  });

  it('leaves a message whose handler hangs to others, and goes on', async () => {
    const { name, ended } = await createQueue(5, { lease: '1s' }, (n) => `k-${n}`);
    const queue = queueOf(name);
    const reasons: unknown[] = [];
    void queue.run<number>(
      ({ payload, attempt }, { signal }) => {
        if (payload !== 2 || attempt > 1) return;
        signal.addEventListener('abort', () => reasons.push(signal.reason));
        return new Promise(() => undefined);
      },
      { concurrency: 1, lease: '1s', handlerTimeout: '300ms' },
    );
    await ended({ finished: 5 });
    expect(reasons).toMatchObject([{ type: 'urn:sluice:client/timeout' }]);
    expect(queue.names()).toContain('queue.handler-overdue');
  });

  it('handles every message, whatever fails on the way', async () => {
    const { name, ended } = await createQueue(150, { lease: '2s', attempts: 100 }, (n) => `k-${n}`);
    const next = everyFault();
    const both = [await proxyTo(0, next), await proxyTo(1, next)];
    const queue = queueOf(
      name,
      both.map(({ url }) => url),
      300,
    );
    const seen = new Set<number>();
    void queue.run<number>(({ payload }) => void seen.add(payload), { wait: '200ms', lease: '2s' });
    await ended({ finished: 150 });
    expect(seen.size).toBe(150);
    expect(missingFaults(both)).toEqual([]);
  });

  it('finishes what it started when it is stopped, and pulls nothing more', async () => {
    const { name, ended } = await createQueue(20, {}, (n) => `k-${n}`);
    const queue = queueOf(name);
    const { opened, open } = gate();
    const stop = new AbortController();
    let started = 0;
    const running = queue.run(
      async () => {
        started += 1;
        await opened;
      },
      { concurrency: 4, signal: stop.signal },
    );
    await until(() => started === 4);
    stop.abort();
    open();
    await running;
    await ended({ finished: 4, pending: 16 });
    expect(started).toBe(4);
  });

  it('does not wait for a handler longer than a stop may take', async () => {
    const { name } = await createQueue(1);
    const queue = queueOf(name);
    const reasons: unknown[] = [];
    const running = queue.run(
      (_message, { signal }) =>
        new Promise(() => signal.addEventListener('abort', () => reasons.push(signal.reason))),
    );
    await until(async () => queue.names().length === 0 && (await inFlight(name)) === 1);
    await queue.stop({ timeout: '1ms' });
    await running;
    expect(reasons).toMatchObject([{ type: 'urn:sluice:client/closed' }]);
  });

  it('fails with what the service refuses for good', async () => {
    const { name } = await createQueue(1);
    const refusal = (apiKey: string, listener = name) =>
      new Sluice({ url: urls(), apiKey }).queue(listener).run(() => undefined);
    await expect(refusal(CONSUME_KEY, 'nobody')).rejects.toMatchObject({ status: 404 });
    await expect(refusal(PRODUCE_KEY)).rejects.toMatchObject({ status: 403 });
    const queue = queueOf(name);
    void queue.run(() => undefined);
    await expect(queue.run(() => undefined)).rejects.toThrow('running already');
    await expect(queueOf(name).run(() => undefined, { concurrency: 0 })).rejects.toThrow(TypeError);
  });
});

async function inFlight(name: string): Promise<number> {
  const { body } = await replicas[0]!.call('GET', `/v1/listeners/${name}/deliveries?status=processing`);
  return body.items.length;
}
