import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ADMIN_KEY, startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';
import { Broker, Consumer, DEFINITIONS, type Handler, Producer, Reject } from './broker.ts';

interface Processed {
  readonly consumer: string;
  readonly key: string;
  readonly n: number;
  readonly attempt: number;
  readonly partition: number;
}

let database: TestDatabase;
let replicas: TestApp[];
let broker: Broker;
const consumers: Consumer[] = [];

beforeAll(async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'broker-')), 'sluice.yaml');
  writeFileSync(file, DEFINITIONS);
  database = await createDatabase();
  const settings = { LISTENERS_FILE: file, INBOX_UNHANDLED: 'finish' };
  replicas = [await startApp(database, settings), await startApp(database, settings)];
  broker = new Broker(
    replicas.map(({ url }) => url),
    ADMIN_KEY,
  );
});
afterEach(async () => {
  await Promise.all(consumers.splice(0).map((consumer) => consumer.leave()));
});
afterAll(async () => {
  for (const replica of replicas) await replica.close();
  await database.drop();
});

async function register(group: string, name: string): Promise<Consumer> {
  const consumer = await Consumer.register(broker, group, name);
  consumers.push(consumer);
  return consumer;
}

async function lagOf(group: string): Promise<number> {
  return (await broker.call('GET', `/v1/groups/${group}`)).body.lag;
}

/** How many messages each partition of a topic has. */
async function sizesOf(topic: string): Promise<number[]> {
  const { partitions } = (await broker.call('GET', `/v1/topics/${topic}`)).body;
  return partitions.map(({ earliest, next }: { earliest: number; next: number }) => next - earliest);
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);

/** The biggest share of a partition, as a multiple of an even one. */
const skewOf = (sizes: readonly number[]) => Math.max(...sizes) / (sum(sizes) / sizes.length);

/** Moves a group to the end of its topics. */
async function skipAll(group: string): Promise<void> {
  expect((await broker.call('POST', `/v1/groups/${group}/seek`, { to: 'latest' })).status).toBe(200);
}

describe('the broker', () => {
  it('B2: has the topics and groups of its file, and more that are added while it runs', async () => {
    const names = async (path: string) =>
      (await broker.call('GET', path)).body.items.map(({ name }: { name: string }) => name);
    expect(await names('/v1/groups')).toEqual(['audit', 'billing', 'shop']);
    expect((await broker.call('PUT', '/v1/topics/refunds', { partitions: 2 })).status).toBe(201);
    expect((await broker.call('PUT', '/v1/groups/refunders', { topics: ['refunds'] })).status).toBe(201);
    expect(await names('/v1/groups')).toContain('refunders');
    expect(await names('/v1/topics')).toEqual(expect.arrayContaining(['orders', 'refunds', 'replies']));
    expect(await sizesOf('orders')).toEqual([0, 0, 0, 0]);
  });

  it('B1 B6 B7 B8 B11: three consumers and one of another group process every message, in order per key', async () => {
    const [keys, perKey] = [40, 12];
    const log = { billing: [] as Processed[], audit: [] as Processed[] };
    const handle = (group: keyof typeof log, consumer: string): Handler => {
      return ({ key, payload, attempt }, { partition }) => {
        log[group].push({ consumer, key, n: payload.n, attempt, partition });
        if (group === 'billing' && payload.n === 5 && key === 'order-7') throw new Reject('no such customer');
      };
    };
    const [a, b, c] = [
      await register('billing', 'a'),
      await register('billing', 'b'),
      await register('billing', 'c'),
    ];
    const d = await register('audit', 'd');
    a.start(handle('billing', 'a'));
    b.start(handle('billing', 'b'));
    d.start(handle('audit', 'd'));

    // It gets messages, and dies before it has processed any.
    const dying = c.next();
    const producer = new Producer(broker);
    const post = async (from: number, to: number) => {
      for (let n = from; n < to; n++) {
        const messages = Array.from({ length: keys }, (_, key) => ({ key: `order-${key}`, payload: { n } }));
        expect((await producer.sendAll('orders', messages)).status).toBe(202);
      }
    };
    await post(0, 2);
    const lost = (await dying).flatMap(({ messages }) => messages);
    await post(2, 8);
    const e = await register('billing', 'e');
    e.start(handle('billing', 'e'));
    await post(8, perKey);
    await until(async () => (await lagOf('billing')) + (await lagOf('audit')) === 0);

    const wanted = Array.from({ length: perKey }, (_, n) => n);
    for (const group of ['billing', 'audit'] as const) {
      for (let key = 0; key < keys; key++) {
        const ofKey = log[group].filter((one) => one.key === `order-${key}`);
        expect([...new Set(ofKey.map(({ n }) => n))]).toEqual(wanted);
        expect(new Set(ofKey.map(({ partition }) => partition)).size).toBe(1);
        const first = ofKey.filter(({ attempt }) => attempt === 1).map(({ n }) => n);
        expect(first).toEqual(first.toSorted((x, y) => x - y));
      }
    }
    const again = log.billing.filter(({ attempt }) => attempt > 1).map(({ key, n }) => `${key} ${n}`);
    expect(again).toEqual(expect.arrayContaining(lost.map(({ key, payload }) => `${key} ${payload.n}`)));
    expect(new Set(log.billing.map(({ consumer }) => consumer))).toEqual(new Set(['a', 'b', 'e']));
    expect(log.audit.every(({ consumer }) => consumer === 'd')).toBe(true);

    const { body: dead } = await broker.call('GET', '/v1/topics/billing.dead/messages');
    expect(dead.messages).toMatchObject([
      { key: 'order-7', payload: { n: 5 }, reason: 'no such customer', origin: { topic: 'orders' } },
    ]);
    expect((await broker.call('GET', '/v1/topics/audit.dead/messages')).body.count).toBe(0);
  });

  it('B4: recognises a number that a producer repeats or skips', async () => {
    await skipAll('billing');
    const producer = new Producer(broker);
    const before = sum(await sizesOf('orders'));
    const send = async (n: number) => {
      const { status, body } = await producer.send('orders', { payload: { n } }, n);
      const { duplicate, gap, gapFilled } = body;
      return {
        status,
        ...(duplicate && { duplicate }),
        ...(gap && { gap }),
        ...(gapFilled && { gapFilled }),
      };
    };
    expect(await send(1)).toEqual({ status: 202 });
    expect(await send(1)).toEqual({ status: 200, duplicate: true });
    expect(await send(4)).toEqual({ status: 202, gap: { from: 2, to: 3 } });
    expect(await send(3)).toEqual({ status: 202, gapFilled: true });
    expect(await send(5)).toEqual({ status: 202 });
    await until(async () => sum(await sizesOf('orders')) === before + 4);
    const consumer = await register('billing', 'counting');
    const seen: number[] = [];
    while (seen.length < 4)
      for (const { messages } of await consumer.next())
        seen.push(...messages.map(({ payload }) => payload.n));
    expect(seen.toSorted()).toEqual([1, 3, 4, 5]);
  });

  it('B3: spreads messages evenly: with many keys, and without keys', async () => {
    const count = 4_000;
    for (const [topic, keyOf] of [
      ['keyed', (n: number) => ({ key: `customer-${n % 1_000}` })],
      ['keyless', () => ({})],
    ] as const) {
      await broker.call('PUT', `/v1/topics/${topic}`, { partitions: 4 });
      for (let from = 0; from < count; from += 1_000) {
        const messages = Array.from({ length: 1_000 }, (_, n) => ({ ...keyOf(from + n), payload: 1 }));
        expect((await broker.call('POST', `/v1/topics/${topic}/messages/batch`, { messages })).status).toBe(
          202,
        );
      }
      await until(async () => sum(await sizesOf(topic)) === count);
      expect(skewOf(await sizesOf(topic))).toBeLessThan(1.2);
    }
  });

  it('B9: finds what is in processing for too long: the session ends, and others get it', async () => {
    await skipAll('billing');
    const { body } = await new Producer(broker).send('orders', { key: 'slow', payload: {} });
    const inBilling = async () => {
      const { groups } = (await broker.call('GET', `/v1/messages/${body.id}`)).body;
      return groups.find(({ group }: { group: string }) => group === 'billing')?.status;
    };
    await until(async () => (await inBilling()) === 'pending');
    const slow = await register('billing', 'slow');
    expect((await slow.next())[0]!.messages).toMatchObject([{ id: body.id, attempt: 1 }]);
    expect(await inBilling()).toBe('processing');
    // It processes and never comes back: nobody has to notice, its session does.
    const other = await register('billing', 'other');
    const [batch] = await other.next();
    expect(batch!.messages).toMatchObject([{ id: body.id, attempt: 2 }]);
    expect(await other.commit(batch!, batch!.to)).toBe('committed');
    expect(await inBilling()).toBe('processed');
  }, 30_000);

  it('B10: replays from offset 0 into a new group, and into an old one by a seek', async () => {
    const sizes = await sizesOf('orders');
    const read = async (group: string) => {
      const consumer = await register(group, 'reader');
      const offsets: number[][] = sizes.map(() => []);
      consumer.start(({ offset }, { partition }) => void offsets[partition]!.push(offset));
      await until(async () => (await lagOf(group)) === 0);
      await consumer.leave();
      return offsets;
    };
    const all = sizes.map((size) => Array.from({ length: size }, (_, offset) => offset));
    const definition = { topics: ['orders'], start: 'earliest' };
    expect((await broker.call('PUT', '/v1/groups/analytics', definition)).status).toBe(201);
    expect(await read('analytics')).toEqual(all);
    expect(await read('analytics')).toEqual(sizes.map(() => []));
    const { body } = await broker.call('POST', '/v1/groups/analytics/seek', { to: { offset: 0 } });
    expect(body.again).toBe(sum(sizes));
    expect(await read('analytics')).toEqual(all);
  });

  it('B10: carries the reply of a consumer to the producer, through another topic', async () => {
    await skipAll('billing');
    const billing = await register('billing', 'replying');
    const replies = new Producer(broker);
    billing.start(async ({ id, headers, payload }) => {
      const reply = { inReplyTo: id, charged: payload.total > 0 };
      await replies.send(headers['reply-to']!, { key: headers.shop!, payload: reply });
    });
    const shop = await register('shop', 'shop-1');
    const answers = new Map<string, boolean>();
    shop.start(({ payload }) => void answers.set(payload.inReplyTo, payload.charged));

    const producer = new Producer(broker);
    const headers = { 'reply-to': 'replies', shop: 'shop-1' };
    const sent = [12, 0, 7].map((total) =>
      producer.send('orders', { key: `order-${total}`, headers, payload: { total } }),
    );
    const ids = (await Promise.all(sent)).map(({ body }) => body.id);
    await until(() => answers.size === 3);
    expect(ids.map((id) => answers.get(id))).toEqual([true, false, true]);
  });
});
