import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { TestConsumer } from '../support/consumer.ts';
import { TestCluster, waitUntilKnown } from '../support/test-cluster.ts';
import { TestQueue } from '../support/test-queue.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open({}, 2);
});
afterEach(() => cluster.clear());
afterAll(() => cluster.close());

const queue = (name: string, definition?: Record<string, unknown>) =>
  TestQueue.open(cluster, name, definition);
const keys = (count: number) => Array.from({ length: count }, (_, n) => `k-${n}`);

describe('E2: a pull returns', () => {
  it('as many messages as it asks for, 50 unless it says so, oldest first', async () => {
    const batches = await queue('batches');
    const ids = await batches.post(...keys(120));
    const pulled = [
      await batches.consumer.pull(),
      await batches.consumer.pull({ max: 60 }),
      await batches.consumer.pull({ max: 500 }),
    ];
    expect(pulled.map(({ length }) => length)).toEqual([50, 60, 10]);
    expect(
      pulled
        .flat()
        .map(({ id }) => id)
        .sort(),
    ).toEqual([...ids].sort());
  });

  it('payloads up to a size, and at least one message, however large', async () => {
    const sized = await queue('sized');
    const message = (key: string, size: number) => ({ type: 'sized/x', key, payload: 'x'.repeat(size) });
    await cluster.post(...['a', 'b', 'c', 'd'].map((key) => message(key, 1_000)), message('e', 200_000));
    const take = async (maxBytes: number) => {
      const messages = await sized.consumer.pull({ maxBytes, wait: '20s' });
      return messages.length;
    };
    expect([await take(2_500), await take(1), await take(1_002)]).toEqual([2, 1, 1]);
    expect(await take(10_000)).toBe(1);
  });

  it('to requests at the same time different messages, each within its own limits', async () => {
    const shared = await queue('shared');
    await cluster.post(...keys(40).map((key) => ({ type: 'shared/x', key, payload: 'x'.repeat(998) })));
    await until(async () => (await cluster.counts('shared')).pending === 40);
    const [all, two, small] = await Promise.all([
      shared.consumer.pull({ max: 10 }),
      shared.consumer.pull({ max: 2 }),
      shared.consumer.pull({ max: 50, maxBytes: 5_000 }),
    ]);
    expect([all!.length, two!.length]).toEqual([10, 2]);
    expect(small!.length).toBeLessThanOrEqual(6);
    const leases = [...all!, ...two!, ...small!].map(({ lease }) => lease);
    expect(new Set(leases).size).toBe(leases.length);
    // What fitted into no request was given back.
    const rest = await shared.consumer.pull({ max: 500, wait: '20s' });
    expect(leases.length + rest.length).toBe(40);
    expect(rest.every(({ attempt }) => attempt === 1)).toBe(true);
  });
});

describe('E2, E4: over all replicas, consumers have', () => {
  it('at most maxInFlight messages', async () => {
    const capped = await queue('capped', { maxInFlight: 7 });
    await capped.post(...keys(20));
    const pulled = await Promise.all(
      capped.consumers.flatMap((one) => [one.pull({ max: 5 }), one.pull({ max: 5 })]),
    );
    expect(pulled.flat()).toHaveLength(7);
    const { body } = await capped.consumer.call('pull');
    expect(body).toMatchObject({
      messages: [],
      waitsFor: 'in-flight',
      explanation: expect.stringContaining('7'),
    });
    const waiting = capped.consumer.pull({ wait: '20s' });
    await capped.consumers[1]!.acknowledge(...pulled.flat().slice(0, 3));
    expect(await waiting).toHaveLength(3);
  });

  it('as many as the rate and its burst allow, in any window', async () => {
    const [perSecond, burst, total] = [40, 10, 50];
    const limited = await queue('limited', { rateLimit: { perSecond, burst } });
    await limited.post(...keys(total));
    const times: number[] = [];
    const consume = async (consumer: TestConsumer) => {
      while (times.length < total) {
        const messages = await consumer.pull({ max: 20, wait: '1s' });
        times.push(...messages.map(() => performance.now()));
        if (messages.length > 0) await consumer.acknowledge(...messages);
      }
    };
    const startedAt = performance.now();
    await Promise.all(limited.consumers.map(consume));
    expect(times).toHaveLength(total);
    // Handed out earlier than seen here: the n-th not before its turn.
    for (const [n, at] of times.entries())
      expect(at - startedAt).toBeGreaterThanOrEqual(((n + 1 - burst) / perSecond) * 1_000 - 1);
  });

  it('one message in many seconds, if that is the rate', async () => {
    const slow = await queue('slow', { rateLimit: { perSecond: 0.01, burst: 1 } });
    await slow.post('a', 'b');
    expect(await slow.consumer.pull()).toHaveLength(1);
    const { body } = await slow.consumers[1]!.call('pull');
    expect(body).toMatchObject({
      messages: [],
      waitsFor: 'rate',
      explanation: expect.stringContaining('0.01/s'),
    });
  });

  it('one message of a key, and the next one not before its rate allows, counted from the acknowledgement', async () => {
    const chats = await queue('chats', { rateLimit: { perKey: { perSecond: 4 } } });
    await chats.post('busy', 'busy', 'busy', 'quiet');
    const acknowledged: number[] = [];
    const handedOut: number[] = [];
    while (acknowledged.length < 3) {
      const messages = await chats.consumer.pull({ wait: '20s' });
      const busy = messages.filter(({ key }) => key === 'busy');
      if (busy.length > 0) handedOut.push(performance.now());
      const before = performance.now();
      await chats.consumer.acknowledge(...messages);
      if (busy.length > 0) acknowledged.push(before);
    }
    for (const n of [1, 2]) expect(handedOut[n]! - acknowledged[n - 1]!).toBeGreaterThanOrEqual(249);
    const { body } = await chats.consumer.call('pull');
    expect(body).toMatchObject({ messages: [], waitsFor: 'messages' });
  });
});

describe('a paused queue', () => {
  it('hands out nothing and says so, settles what is in flight, and goes on when it is resumed', async () => {
    const paused = await queue('paused');
    const [first, second] = paused.consumers;
    await paused.post('a', 'b');
    const [a] = await first!.pull({ max: 1 });
    await paused.call('POST', '/pause', { reason: 'their maintenance' });
    for (const replica of cluster.replicas)
      await waitUntilKnown(replica, 'paused', ({ state }) => state === 'paused');
    const { body } = await second!.call('pull');
    expect(body).toEqual({
      messages: [],
      leaseFor: '30s',
      waitsFor: 'paused-listener',
      explanation: expect.stringContaining('/v1/listeners/paused/resume'),
    });
    expect(await first!.acknowledge(a!)).toEqual(['done']);
    const waiting = second!.pull({ wait: '20s' });
    await paused.call('POST', '/resume');
    expect(await waiting).toEqual([expect.objectContaining({ key: 'b' })]);
  });
});
