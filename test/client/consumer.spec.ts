import { afterEach, describe, expect, it } from '@jest/globals';
import { type Consumer, type ConsumerOptions, Reject, Sluice } from '../../packages/client/src/index.ts';
import { ADMIN_KEY, CONSUME_KEY, PRODUCE_KEY } from '../support/app.ts';
import { everyFault, type FaultProxy, faultProxiesPerTest, missingFaults } from '../support/fault-proxy.ts';
import { metricsOf } from '../support/metrics.ts';
import { sharedReplicas } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';
import { createTopic, gate, Handled, range, sluiceOf, type TestTopic } from './topic.ts';

const { database, replicas } = sharedReplicas(2);
const consumers: Consumer[] = [];
// Before the proxies are closed: hooks run in the order in which they are registered.
afterEach(() => Promise.all(consumers.splice(0).map((consumer) => consumer.stop({ timeout: 0 }))));
const startProxy = faultProxiesPerTest();

const urls = () => replicas.map(({ url }) => url);

/** A consumer that is stopped after the test, and what its client reported. */
function consumerOf({ group }: TestTopic, options: Partial<ConsumerOptions> = {}, to = urls()) {
  const { sluice, events, names } = sluiceOf(to, { timeout: 2_000 });
  const consumer = sluice.consumer({ group, ...options });
  consumers.push(consumer);
  return Object.assign(consumer, { events, names });
}

/** As retention does. */
async function removeBefore({ topic }: TestTopic, earliest: number): Promise<void> {
  await database.query(
    `WITH topic AS (SELECT number FROM topic WHERE name = $1),
          removed AS (DELETE FROM topic_entry WHERE topic = (SELECT number FROM topic) AND "offset" < $2)
     UPDATE topic_partition SET earliest = $2 WHERE topic = (SELECT number FROM topic)`,
    [topic, earliest],
  );
}

const proxyTo = (index: number, next?: FaultProxy['next']) => startProxy(replicas[index]!.url, next);

describe('a consumer', () => {
  it('B12 handles every message once, in order per key, some keys at a time, and commits', async () => {
    const topic = await createTopic(replicas[0]!);
    await topic.post(1_000);
    const consumer = consumerOf(topic, { concurrency: 6 });
    const handled = new Handled();
    const running = consumer.run<number>(async (message, { tries, fence }) => {
      handled.start(message);
      expect(message).toMatchObject({ topic: topic.topic, type: topic.topic, attempt: 1, headers: {} });
      expect([tries, fence]).toEqual([1, expect.any(Number)]);
      await new Promise(setImmediate);
      handled.end(message);
    });
    await topic.committed();
    await consumer.stop();
    await running;
    expect(handled.payloads).toEqual(range(1_000));
    for (const [key, payloads] of Object.entries(handled.byKey()))
      expect([key, payloads]).toEqual([key, range(50).map((n) => n * 20 + Number(key.slice(2)))]);
    expect([handled.maxRunning, handled.maxRunningOfKey]).toEqual([6, 1]);
    expect((await topic.state()).members).toEqual([]);
  });

  it('B12 gets messages as they come, over fetch as well', async () => {
    const topic = await createTopic(replicas[0]!);
    const sluice = new Sluice({ url: urls(), apiKey: CONSUME_KEY });
    const consumer = sluice.consumer({ group: topic.group, topics: [topic.topic], name: 'one' });
    consumers.push(consumer);
    const handled = new Handled();
    const stop = new AbortController();
    const running = consumer.run((message) => handled.start(message), { signal: stop.signal });
    for (const n of range(3)) {
      await topic.post(2);
      await until(() => handled.messages.length === 2 * (n + 1));
    }
    expect((await topic.state()).members).toMatchObject([{ name: 'one' }]);
    stop.abort();
    await running;
    const { lag, members } = await topic.state();
    expect([lag, members]).toEqual([0, []]);
  });

  it('retries a message that fails, then rejects it with the error as the reason', async () => {
    const topic = await createTopic(replicas[0]!);
    await topic.post(10, () => 'k');
    const consumer = consumerOf(topic, { retry: ['1ms', '2ms'] });
    const tries: number[] = [];
    const order: unknown[] = [];
    void consumer.run((message, context) => {
      if (message.payload !== 3) return void order.push(message.payload);
      tries.push(context.tries);
      throw new Error('no connection');
    });
    await topic.committed();
    expect([tries, order]).toEqual([[1, 2, 3], range(10).filter((n) => n !== 3)]);
    expect(await topic.deadLetters()).toEqual(new Map([[3, 'Error: no connection']]));
    expect(consumer.names().filter((name) => name === 'consumer.handler-failed')).toHaveLength(3);
  });

  it('B7 rejects a message at once if the handler says so', async () => {
    const topic = await createTopic(replicas[0]!);
    await topic.post(40);
    const consumer = consumerOf(topic);
    const tries: unknown[] = [];
    void consumer.run(({ payload }) => {
      tries.push(payload);
      if ((payload as number) % 10 === 0) throw new Reject(`no such customer: ${payload}`);
    });
    await topic.committed();
    expect(tries).toHaveLength(40);
    const wanted = [0, 10, 20, 30].map((n) => [n, `no such customer: ${n}`] as const);
    expect(new Map([...(await topic.deadLetters())].sort())).toEqual(new Map(wanted));
  });

  it('lets a failing key block only itself', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 1 });
    await topic.post(200, (n) => (n % 2 ? 'failing' : `k-${n % 10}`));
    const consumer = consumerOf(topic, { retry: ['1h'], concurrency: 2, prefetch: 60 });
    const handled: number[] = [];
    const running = consumer.run<number>(({ key, payload }) => {
      if (key === 'failing') throw new Error('not today');
      handled.push(payload);
    });
    await until(() => handled.length === 100);
    expect((await topic.state()).partitions[0].committed).toBe(0);
    await consumer.stop({ timeout: 0 });
    await running;
  });

  it('commits only what is finished without a hole', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 1 });
    await topic.post(50, (n) => `k-${n}`);
    const consumer = consumerOf(topic);
    const handled: number[] = [];
    const { opened, open } = gate();
    void consumer.run<number>(async ({ payload }) => {
      if (payload === 20) await opened;
      handled.push(payload);
    });
    await until(async () => handled.length === 49 && (await topic.state()).partitions[0].committed === 19);
    open();
    await topic.committed();
  });

  it('gets more at once when a slow message had kept it at maxInFlight', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 1, maxInFlight: 10, session: '10m' });
    await topic.post(30, (n) => `k-${n}`);
    const proxy = await proxyTo(0);
    const consumer = consumerOf(topic, { prefetch: 10, wait: '50s' }, [proxy.url]);
    const handled: number[] = [];
    const { opened, open } = gate();
    void consumer.run<number>(async ({ payload }) => {
      if (payload === 0) await opened;
      handled.push(payload);
    });
    // The poll waits for the slow message.
    await until(() => proxy.requests.filter(({ body }) => body.includes('"wait":"50000ms"')).length === 2);
    await until(() => handled.length === 9);
    open();
    await topic.committed();
    expect(handled).toHaveLength(30);
  });

  it('fetches more when half of what it fetched is done, and not more than it may have', async () => {
    const topic = await createTopic(replicas[0]!);
    await topic.post(300, (n) => `k-${n}`);
    const proxy = await proxyTo(0);
    const consumer = consumerOf(topic, { prefetch: 40, concurrency: 5 }, [proxy.url]);
    const handled = new Handled();
    void consumer.run((message) => handled.start(message));
    await topic.committed();
    const sizes = proxy.requests
      .filter(({ path }) => path.endsWith('/poll'))
      .map(({ body }) => JSON.parse(body).max as number);
    expect(sizes[0]).toBe(40);
    for (const size of sizes) expect([0, ...range(21, 20)]).toContain(size);
    expect(handled.payloads).toEqual(range(300));
  });

  it('B6 stays a member while a handler takes longer than the session', async () => {
    const topic = await createTopic(replicas[0]!, { session: '5s' });
    await topic.post(4, (n) => `k-${n}`);
    const proxy = await proxyTo(0);
    const consumer = consumerOf(topic, { prefetch: 4 }, [proxy.url]);
    const handled = new Handled();
    void consumer.run(async (message, { signal }) => {
      handled.start(message);
      // Two sessions.
      await until(() => proxy.requests.filter(({ body }) => body.includes('"max":0')).length >= 6);
      expect(signal.aborted).toBe(false);
    });
    await topic.committed();
    expect(handled.payloads).toEqual(range(4));
    expect(consumer.names()).toEqual(['consumer.joined']);
  });

  it('B8 stays a member while a replica that is frozen holds its poll for longer than the session', async () => {
    const topic = await createTopic(replicas[0]!, { session: '2s' });
    await topic.post(20);
    const frozen = await proxyTo(0, ({ path }) => (path.endsWith('/poll') ? 'hang' : 'pass'));
    const { sluice, names } = sluiceOf([frozen.url, replicas[1]!.url], { timeout: 6_000 });
    const consumer = sluice.consumer({ group: topic.group });
    consumers.push(consumer);
    const handled = new Handled();
    void consumer.run((message) => handled.start(message));
    // It would drop a member that is silent.
    const other = consumerOf(topic);
    await until(() => frozen.faults.get('hang'));
    void other.run((message) => handled.start(message));
    await topic.committed();
    expect(handled.messages.map(({ attempt }) => attempt)).toEqual(Array(20).fill(1));
    expect((await topic.state()).members).toHaveLength(2);
    expect(names()).toEqual(['consumer.joined']);
    expect(frozen.faults.get('hang')).toBeGreaterThan(1);
  });

  it('drops everything and joins again when the service does not know it any more', async () => {
    const topic = await createTopic(replicas[0]!);
    await topic.post(20, (n) => `k-${n % 4}`);
    const consumer = consumerOf(topic, { concurrency: 4 });
    const handled = new Handled();
    const aborted: unknown[] = [];
    void consumer.run(async (message, { signal }) => {
      handled.start(message);
      if (handled.messages.length > 4) return;
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      aborted.push(signal.reason);
      // It is no failure: the message belongs to somebody else.
      throw signal.reason;
    });
    await until(() => handled.messages.length === 4);
    const [{ member }] = (await topic.state()).members;
    await replicas[0]!.call('DELETE', `/v1/groups/${topic.group}/members/${member}`);
    await topic.committed();
    expect(aborted).toHaveLength(4);
    expect(aborted[0]).toMatchObject({ type: 'urn:sluice:client/partition-lost' });
    expect(new Set(handled.payloads)).toEqual(new Set(range(20)));
    expect(handled.messages).toHaveLength(24);
    expect(consumer.names()).toEqual(
      expect.arrayContaining(['consumer.member-lost', 'consumer.partition-lost', 'consumer.joined']),
    );
    expect(consumer.names()).not.toContain('consumer.handler-failed');
  });

  it('is handed again what was in a response that got lost', async () => {
    const topic = await createTopic(replicas[0]!);
    await topic.post(200);
    let polls = 0;
    const proxy = await proxyTo(0, ({ path }) =>
      path.endsWith('/poll') && polls++ % 2 === 0 ? 'lost' : 'pass',
    );
    const consumer = consumerOf(topic, { prefetch: 50, wait: '1s' }, [proxy.url]);
    const handled = new Handled();
    void consumer.run((message) => handled.start(message));
    await topic.committed();
    expect(handled.payloads).toEqual(range(200));
    expect(proxy.faults.get('lost')).toBeGreaterThan(1);
  });

  it('handles every message once, whatever fails on the way', async () => {
    const topic = await createTopic(replicas[0]!);
    await topic.post(400);
    const next = everyFault();
    const both = [await proxyTo(0, next), await proxyTo(1, next)];
    const to = both.map(({ url }) => url);
    const { sluice } = sluiceOf(to, { timeout: 300 });
    const consumer = sluice.consumer({ group: topic.group, prefetch: 40, wait: '200ms' });
    consumers.push(consumer);
    const handled = new Handled();
    void consumer.run((message) => handled.start(message));
    await topic.committed();
    expect(handled.payloads).toEqual(range(400));
    for (const payloads of Object.values(handled.byKey()))
      expect(payloads).toEqual([...payloads].sort((a, b) => Number(a) - Number(b)));
    expect(missingFaults(both)).toEqual([]);
  });

  it('reports what retention removed before it was read, and goes on', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 1 });
    await topic.post(10);
    await removeBefore(topic, 4);
    const consumer = consumerOf(topic);
    const handled = new Handled();
    void consumer.run((message) => handled.start(message));
    await topic.committed();
    expect(handled.payloads).toEqual(range(6, 4));
    expect(consumer.events.find(({ event }) => event === 'consumer.skipped')?.detail).toContain(
      'offsets 0 to 3',
    );
  });

  it.each([
    ['some', 4],
    ['all', 10],
  ])('goes on and reports it when the response is lost that skips %s messages', async (_what, earliest) => {
    const topic = await createTopic(replicas[0]!, { partitions: 1 });
    await topic.post(10);
    await removeBefore(topic, earliest);
    let polls = 0;
    const proxy = await proxyTo(0, ({ path }) => (path.endsWith('/poll') && polls++ === 0 ? 'lost' : 'pass'));
    const consumer = consumerOf(topic, { wait: '1s' }, [proxy.url]);
    const handled = new Handled();
    void consumer.run((message) => handled.start(message));
    const skips = () => consumer.events.filter(({ event }) => event === 'consumer.skipped');
    // Also without a message after them.
    await until(() => skips().length > 0);
    await topic.post(3);
    await topic.committed();
    await until(() => handled.messages.length === 13 - earliest);
    expect(handled.payloads).toEqual(range(13 - earliest, earliest));
    expect(skips().map(({ detail }) => detail)).toEqual([
      `offsets 0 to ${earliest - 1} of ${topic.topic}/0 were removed before they were handed out`,
    ]);
    const metric = await metricsOf(replicas[0]!);
    expect(metric(`group_messages_skipped_total{group="${topic.group}"}`)).toBe(earliest);
  });

  it('fails with what the service refuses for good', async () => {
    const topic = await createTopic(replicas[0]!);
    const url = urls();
    const refusal = (apiKey: string, options: Partial<ConsumerOptions> = {}) =>
      new Sluice({ url, apiKey }).consumer({ group: topic.group, ...options }).run(() => undefined);
    await expect(refusal(CONSUME_KEY, { group: 'nobody' })).rejects.toMatchObject({ status: 404 });
    await expect(refusal(PRODUCE_KEY)).rejects.toMatchObject({ status: 403 });
    await expect(refusal('sk_wrong_0123456789abcdefghij')).rejects.toMatchObject({ status: 401 });
    await expect(refusal(ADMIN_KEY, { topics: ['others'] })).rejects.toMatchObject({
      type: 'urn:sluice:client/unexpected-topic',
    });
    expect((await topic.state()).members).toEqual([]);
    const consumer = consumerOf(topic);
    const running = consumer.run(() => undefined);
    await expect(consumer.run(() => undefined)).rejects.toThrow('running already');
    await consumer.stop();
    await running;
    const { sluice } = sluiceOf(url);
    expect(() => sluice.consumer({ group: 'g', concurrency: 0 })).toThrow(TypeError);
    expect(() => sluice.consumer({ group: 'g', retry: ['soon' as '1s'] })).toThrow(/^retry must be/);
  });
});

describe('members of a group', () => {
  it('B8 share the work; one that joins takes over without a message handled twice', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 8 });
    await topic.post(600, (n) => `k-${n}`);
    const handled = [new Handled(), new Handled()];
    const { opened, open } = gate();
    const first = consumerOf(topic, { concurrency: 4, prefetch: 50 });
    void first.run(async (message) => {
      handled[0]!.start(message);
      if (handled[0]!.messages.length > 100) await opened;
    });
    await until(() => handled[0]!.messages.length > 100);
    const second = consumerOf(topic, { prefetch: 50 });
    void second.run((message) => handled[1]!.start(message));
    await until(() => handled[1]!.messages.length > 0 || second.names().includes('consumer.joined'));
    open();
    await topic.committed();
    const all = handled.flatMap(({ payloads }) => payloads).sort((a, b) => a - b);
    expect(all).toEqual(range(600));
    expect(handled[1]!.messages.length).toBeGreaterThan(0);
    expect(first.names()).not.toContain('consumer.partition-lost');
  });

  it('B8 take over at once from one that stops, which finishes what it started', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 2 });
    await topic.post(100, (n) => `k-${n}`);
    const [first, second] = [consumerOf(topic, { concurrency: 3 }), consumerOf(topic)];
    const handled = [new Handled(), new Handled()];
    const { opened, open } = gate();
    const running = first.run(async (message) => {
      handled[0]!.start(message);
      await opened;
    });
    await until(() => handled[0]!.messages.length === 3);
    const stopped = first.stop();
    open();
    await Promise.all([stopped, running]);
    void second.run((message) => handled[1]!.start(message));
    await topic.committed();
    const all = handled.flatMap(({ payloads }) => payloads).sort((a, b) => a - b);
    expect(all).toEqual(range(100));
    expect(handled[0]!.messages.length).toBeLessThan(100);
  });

  it('B8 get nothing twice from one that stops: it also handles what lies before what it has started', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 1 });
    // 1 waits for 0, while 2 is handled.
    await topic.post(10, (n) => (n < 2 ? 'slow' : `k-${n}`));
    const [first, second] = [consumerOf(topic, { concurrency: 2 }), consumerOf(topic)];
    const handled = [new Handled(), new Handled()];
    const { opened, open } = gate();
    const running = first.run(async (message) => {
      handled[0]!.start(message);
      await opened;
    });
    await until(() => handled[0]!.messages.length === 2);
    const stopped = first.stop();
    open();
    await Promise.all([stopped, running]);
    expect(handled[0]!.payloads).toEqual([0, 1, 2]);
    void second.run((message) => handled[1]!.start(message));
    await topic.committed();
    expect(handled[1]!.payloads).toEqual(range(7, 3));
  });

  it('get what one of them could not finish before its stop was over', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 1 });
    await topic.post(3, (n) => `k-${n}`);
    const [first, second] = [consumerOf(topic), consumerOf(topic)];
    const reasons: unknown[] = [];
    const running = first.run(async (_message, { signal }) => {
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      reasons.push(signal.reason);
    });
    await until(async () => (await topic.state()).partitions[0].handed === 2);
    await first.stop({ timeout: '1ms' });
    await running;
    await until(() => reasons.length === 3);
    const handled = new Handled();
    void second.run((message) => handled.start(message));
    await topic.committed();
    expect(handled.payloads).toEqual(range(3));
  });

  it('B8 get the work of one whose handler hangs, although its process runs', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 2, session: '1s' });
    await topic.post(20, (n) => `k-${n}`);
    const hanging = consumerOf(topic, { handlerTimeout: '200ms', wait: '500ms' });
    const aborted: unknown[] = [];
    const hung = hanging.run(({ payload }, { signal }) => {
      if (payload !== 7) return;
      signal.addEventListener('abort', () => aborted.push(signal.reason));
      return new Promise(() => undefined);
    });
    await expect(hung).rejects.toMatchObject({
      type: 'urn:sluice:client/handler-timeout',
      detail: expect.stringMatching(/^The handler of offset \d+ of orders-\d+\/\d+ takes longer than 200 ms/),
    });
    expect(aborted).toMatchObject([{ type: 'urn:sluice:client/timeout' }]);
    const other = consumerOf(topic);
    const handled = new Handled();
    void other.run((message) => handled.start(message));
    await until(() => handled.payloads.includes(7));
    await topic.committed();
    expect(handled.messages.find(({ payload }) => payload === 7)!.attempt).toBeGreaterThan(1);
    expect(hanging.names()).toContain('consumer.handler-overdue');
  });

  it('continue if a handler ends when its time is over, within the session', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 1, session: '5s' });
    await topic.post(3, () => 'k');
    const consumer = consumerOf(topic, { handlerTimeout: '100ms', retry: ['1ms'] });
    const handled = new Handled();
    void consumer.run(async (message, { signal, tries }) => {
      handled.start(message);
      if (message.payload === 1 && tries === 1)
        await new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)));
    });
    await topic.committed();
    expect(handled.payloads).toEqual([0, 1, 1, 2]);
    expect(consumer.names()).toEqual([
      'consumer.joined',
      'consumer.handler-overdue',
      'consumer.handler-failed',
    ]);
  });

  it('B8 make a dead letter of a message whose handler always hangs, once it has used up its attempts', async () => {
    const topic = await createTopic(replicas[0]!, { partitions: 1, session: '1s', attempts: 3 });
    await topic.post(3, (n) => `k-${n}`);
    const attempts: number[] = [];
    const hung = () =>
      consumerOf(topic, { handlerTimeout: '200ms', wait: '500ms' }).run(({ payload, attempt }) => {
        if (payload !== 1) return;
        attempts.push(attempt);
        return new Promise(() => undefined);
      });
    for (const _ of range(3)) await expect(hung()).rejects.toMatchObject({ title: 'Handler timeout' });
    const last = consumerOf(topic);
    void last.run(() => undefined);
    await topic.committed();
    expect(attempts).toEqual([1, 2, 3]);
    expect([...(await topic.deadLetters()).keys()]).toEqual([1]);
  });
});
