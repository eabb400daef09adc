import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { TestConsumer } from '../support/consumer.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { GroupClient } from '../support/group-client.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { hasPgBouncer, type PgBouncer, startPgBouncer } from '../support/pgbouncer.ts';
import { RebuildClient } from '../support/rebuild-client.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

@Denormalizer({ types: ['count'] })
@Injectable()
class Counts {
  async apply({ key, payload, attempt }: Message<{ n: number }>, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO counted (key, n) VALUES ($1, $2)', [key, payload.n]);
    await tx.manager.query('SELECT count(*) FROM counted WHERE key = $1', [key]);
    if (payload.n === 7 && attempt === 1) throw new Error('not at the first attempt');
  }
}

const COUNTS = oneTableReadModel('counted (at bigserial, key text, n int)', [Counts]);
const SETTINGS = {
  DATABASE_POOLER: 'transaction',
  INBOX_POLL: '50ms',
  OUTBOX_POLL: '50ms',
  INBOX_RETRY_SCHEDULE: '1ms',
  INBOX_BATCH_MESSAGES: '16',
  EGRESS_ALLOW: '127.0.0.0/8',
  SECRETS_KEYS: `test=${Buffer.alloc(32, 1).toString('base64')}`,
};
const KEYS = 10;
const EACH = 20;

/** Each transaction may get another session, and there are more clients than sessions. */
(hasPgBouncer() ? describe : describe.skip)('behind PgBouncer in transaction mode', () => {
  let database: TestDatabase;
  let pooler: PgBouncer;
  const replicas: TestApp[] = [];
  let receiver: Receiver;

  beforeAll(async () => {
    database = await createDatabase();
    pooler = await startPgBouncer(database.url, 5);
    const pooled = { ...database, url: pooler.url };
    receiver = await startReceiver();
    for (let n = 0; n < 2; n++) replicas.push(await startApp(pooled, SETTINGS, [COUNTS]));
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    await receiver.close();
    await pooler.stop();
    await database.drop();
  });

  it('accepts, applies and delivers everything, once and in order per key', async () => {
    const body = { types: ['count'], url: receiver.url };
    expect((await replicas[0]!.call('PUT', '/v1/listeners/one', { body })).status).toBe(201);
    const posts = Array.from({ length: EACH }, (_, n) => n).map((n) => {
      const messages = Array.from({ length: KEYS }, (_, key) => ({
        ...{ id: `${key}-${n}`, key: `k-${key}`, type: 'count' },
        payload: { n },
      }));
      return () => replicas[n % 2]!.call('POST', '/v1/messages/batch', { body: { messages } });
    });
    for (const post of posts) expect((await post()).status).toBe(202);
    await until(() => receiver.received.length >= KEYS * EACH);
    const inOrder = Array.from({ length: EACH }, (_, n) => n);
    for (let key = 0; key < KEYS; key++) {
      const rows = await database.query<{ n: number }>('SELECT n FROM counted WHERE key = $1 ORDER BY at', [
        `k-${key}`,
      ]);
      expect(rows.map(({ n }) => n)).toEqual(inOrder);
      const reported = receiver.received.filter(({ body: { key: of } }) => of === `k-${key}`);
      expect(reported.map(({ body: { data } }) => data.n)).toEqual(inOrder);
    }
  });

  it('hands out everything to groups and queues, at either replica, and wakes those that wait', async () => {
    const groups = replicas.map((replica) => new GroupClient(replica));
    const consumers = replicas.map((replica) => new TestConsumer(replica, 'pulled'));
    const { topic, group } = await groups[0]!.create({ topic: { partitions: 2 } });
    await groups[0]!.expect(201, 'PUT', '/v1/listeners/pulled', { mode: 'pull', types: [topic] });
    const member = await groups[1]!.join(group);
    let polled = groups[1]!.poll(group, member, { wait: '20s' });
    let pulled = consumers[1]!.pull({ wait: '20s' });
    await groups[0]!.post(topic, 20);
    const [read, handled]: [unknown[], unknown[]] = [[], []];
    for (let n = 0; read.length < 20; n++) {
      for (const batch of (await polled).batches) {
        read.push(...batch.messages.map(({ payload }) => payload));
        expect(await groups[n % 2]!.commit(group, member, batch, batch.to)).toBe('committed');
      }
      polled = groups[n % 2]!.poll(group, member, { wait: '5s' });
    }
    for (let n = 0; handled.length < 20; n++) {
      const messages = await pulled;
      handled.push(...messages.map(({ payload }) => payload));
      expect(await consumers[n % 2]!.acknowledge(...messages)).toEqual(messages.map(() => 'done'));
      pulled = consumers[n % 2]!.pull({ wait: '5s' });
    }
    const all = Array.from({ length: 20 }, (_, n) => n);
    const ascending = (numbers: unknown[]) => (numbers as number[]).sort((a, b) => a - b);
    expect([ascending(read), ascending(handled)]).toEqual([all, all]);
    await Promise.all([polled, pulled]);
  });

  it('rebuilds a read model, switches, and is rolled back, with every message once and in order', async () => {
    const rebuilds = new RebuildClient(replicas[0]!);
    const counted = (schema: string) =>
      database.query(`SELECT key, n FROM ${schema}.counted ORDER BY key, at`);
    const living = await counted('tested');
    expect(living).toHaveLength(KEYS * EACH);
    await rebuilds.act('', {});
    await rebuilds.reached('switched');
    expect(await counted('tested')).toEqual(living);
    const body = { id: 'later', key: 'k-later', type: 'count', payload: { n: 1 } };
    expect((await replicas[1]!.call('POST', '/v1/messages', { body })).status).toBe(202);
    await until(async () => (await counted('tested')).length > living.length);
    await rebuilds.act('/rollback');
    await rebuilds.reached('rolled-back');
    expect(await counted('tested')).toEqual(await counted('tested__next'));
    await rebuilds.act('/drop');
    const locks = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = hashtext('sluice.rebuild')::oid`;
    expect(await database.query(locks)).toEqual([]);
  });

  it('logs no missing statements or sessions', () => {
    const events = replicas.flatMap(({ lines }) => lines.map((line) => JSON.parse(line)));
    const expected = ['inbox.retry', 'inbox.unhandled', 'nest.warning'];
    expect(events.filter(({ event }) => !expected.includes(event))).toEqual([]);
  });
});
