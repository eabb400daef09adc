import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Batch, Consumer, ConsumerOptions } from '../../packages/client/src/index.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { until } from '../support/until.ts';
import { createTopic, range, sluiceOf, type TestTopic } from './topic.ts';

let database: TestDatabase;
let replica: TestApp;
const consumers: Consumer[] = [];

beforeAll(async () => {
  database = await createDatabase();
  replica = await startApp(database);
});
afterEach(() => Promise.all(consumers.splice(0).map((consumer) => consumer.stop({ timeout: 0 }))));
afterAll(async () => {
  await replica.close();
  await database.drop();
});

function consumerOf({ group }: TestTopic, options: Partial<ConsumerOptions> = {}, url = replica.url) {
  const { sluice, names } = sluiceOf(url);
  const consumer = sluice.consumer({ group, ...options });
  consumers.push(consumer);
  return Object.assign(consumer, { names });
}

const payloadsOf = ({ messages }: Batch) => messages.map(({ payload }) => payload as number);

describe('a consumer of batches', () => {
  it('B12 gets every message once, each batch of one partition in order, and leaves when the loop ends', async () => {
    const topic = await createTopic(replica);
    await topic.post(500);
    const consumer = consumerOf(topic, { prefetch: 60 });
    const seen: number[] = [];
    for await (const batch of consumer.batches<number>()) {
      const { messages, fence, partition } = batch;
      const offsets = messages.map(({ offset }) => offset);
      expect(offsets).toEqual(range(offsets.length, offsets[0]));
      expect([fence, new Set(messages.map((one) => one.partition))]).toEqual([
        expect.any(Number),
        new Set([partition]),
      ]);
      seen.push(...payloadsOf(batch));
      await batch.commit();
      if (seen.length === 500) break;
    }
    expect(seen.sort((a, b) => a - b)).toEqual(range(500));
    const { lag, members } = await topic.state();
    expect([lag, members]).toEqual([0, []]);
  });

  it('hands out again what was not committed, and what comes after a commit of a part', async () => {
    const topic = await createTopic(replica, { partitions: 1 });
    await topic.post(10);
    for await (const batch of consumerOf(topic).batches()) {
      await batch.commit(batch.messages[3]!.offset);
      break;
    }
    for await (const batch of consumerOf(topic).batches()) {
      expect(payloadsOf(batch)).toEqual(range(6, 4));
      break;
    }
    const { lag } = await topic.state();
    expect(lag).toBe(6);
  });

  it('B7 rejects messages with the commit that covers them', async () => {
    const topic = await createTopic(replica, { partitions: 1 });
    await topic.post(5);
    for await (const batch of consumerOf(topic).batches()) {
      batch.reject(batch.messages[2]!.offset, 'no such customer');
      await batch.commit();
      break;
    }
    expect(await topic.deadLetters()).toEqual(new Map([[2, 'no such customer']]));
  });

  it('stays a member while a batch takes long, and ends when it is stopped', async () => {
    const topic = await createTopic(replica, { session: '5s' });
    await topic.post(3, () => 'k');
    const proxy = await startFaultProxy(replica.url);
    const consumer = consumerOf(topic, { wait: '1s' }, proxy.url);
    let batches = 0;
    for await (const batch of consumer.batches()) {
      batches += 1;
      const polls = () => proxy.requests.filter(({ path }) => path.endsWith('/poll')).length;
      // Two sessions.
      await until(() => polls() > 7);
      await batch.commit();
      void consumer.stop();
    }
    expect([batches, consumer.names()]).toEqual([1, ['consumer.joined']]);
    expect((await topic.state()).lag).toBe(0);
    await proxy.close();
  });

  it('cannot commit what belongs to another member now', async () => {
    const topic = await createTopic(replica, { partitions: 1, session: '1s' });
    await topic.post(3, () => 'k');
    const consumer = consumerOf(topic);
    for await (const batch of consumer.batches()) {
      const [{ member }] = (await topic.state()).members;
      await replica.call('DELETE', `/v1/groups/${topic.group}/members/${member}`);
      await expect(batch.commit()).rejects.toMatchObject({ type: 'urn:sluice:client/partition-lost' });
      expect(batch.signal.aborted).toBe(true);
      break;
    }
    expect((await topic.state()).lag).toBe(3);
  });

  it('is taken for dead when a batch takes longer than it may', async () => {
    const topic = await createTopic(replica, { partitions: 1, session: '1s' });
    await topic.post(3, () => 'k');
    const hanging = consumerOf(topic, { handlerTimeout: '100ms', wait: '300ms' });
    const loop = async () => {
      for await (const batch of hanging.batches()) {
        await new Promise<void>((resolve) => batch.signal.addEventListener('abort', () => resolve()));
        await until(() => hanging.names().includes('consumer.member-lost'));
        await expect(batch.commit()).rejects.toMatchObject({ title: 'Partition lost' });
      }
    };
    await expect(loop()).rejects.toMatchObject({ type: 'urn:sluice:client/handler-timeout' });
    for await (const batch of consumerOf(topic).batches()) {
      expect(batch.messages.map(({ attempt }) => attempt)).toEqual([2, 2, 2]);
      break;
    }
  });

  it('fails with what the service refuses, and does not start when its signal is aborted', async () => {
    const topic = await createTopic(replica);
    const nobody = sluiceOf(replica.url).sluice.consumer({ group: 'nobody' });
    await expect(nobody.batches().next()).rejects.toMatchObject({ status: 404 });
    const consumer = consumerOf(topic);
    const aborted = AbortSignal.abort();
    expect(await consumer.batches({ signal: aborted }).next()).toEqual({ done: true, value: undefined });
    await consumer.run(() => undefined, { signal: aborted });
    expect((await topic.state()).members).toEqual([]);
  });
});
