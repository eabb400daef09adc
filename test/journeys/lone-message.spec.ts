import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Wakeups } from '../../src/lanes/wakeups.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { POLLING_OFF } from '../support/polling-off.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;
let replica: TestApp;
let receiver: Receiver;
const reported: string[] = [];

beforeAll(async () => {
  database = await createDatabase();
  receiver = await startReceiver();
  // Without wake-ups and polling: what is handled was claimed by a piggyback lease.
  replica = await startApp(database, POLLING_OFF, []);
  const body = { types: ['note'], url: receiver.url };
  expect((await replica.call('PUT', '/v1/listeners/one', { body })).status).toBe(201);
  replica.app.nest.get(Wakeups).onLocalWrite((queue) => void reported.push(queue));
});
afterAll(async () => {
  await replica.close();
  await receiver.close();
  await database.drop();
});

const post = (id: string, more: object = {}) =>
  replica.call('POST', '/v1/messages', { body: { id, key: 'k', type: 'note', payload: id, ...more } });
const arrived = (count: number) => until(() => receiver.received.length >= count);

describe('a single message', () => {
  it('is claimed with the commit that stores it, and its delivery with the one that applies it, without a wake-up', async () => {
    const response = await post('alone');
    expect([response.status, response.body]).toEqual([202, { id: 'alone', status: 'pending' }]);
    await arrived(1);
    expect(reported).toEqual([]);
    await until(
      async () => (await replica.call('GET', '/v1/messages/alone')).body.deliveries[0].status === 'finished',
    );
    const { body } = await replica.call('GET', '/v1/messages/alone');
    expect([body.attempt, body.deliveries[0].attempt]).toEqual([1, 1]);
  });

  it('is recognised as a repeat', async () => {
    const again = await post('alone');
    expect([again.status, again.body]).toEqual([200, { id: 'alone', status: 'finished', duplicate: true }]);
    expect((await post('alone', { payload: 'other' })).status).toBe(409);
  });

  it('keeps the order of its key', async () => {
    const before = receiver.received.length;
    const ids = Array.from({ length: 20 }, (_, n) => `in-order-${n}`);
    for (const id of ids) await post(id);
    await arrived(before + ids.length);
    expect(receiver.received.slice(before).map(({ body }) => body.id)).toEqual(ids);
  });

  it('is not charged for a change of listeners that its replica does not know', async () => {
    for (let n = 0; n < 5; n++) {
      await database.query('UPDATE listener SET revision = revision + 1');
      await post(`changed-${n}`);
      const story = async () => (await replica.call('GET', `/v1/messages/changed-${n}`)).body;
      await until(async () => (await story()).status === 'finished');
      expect(await story()).toMatchObject({ attempt: 1 });
    }
  });

  it('releases its lanes', async () => {
    await until(
      async () =>
        (await database.query(`SELECT FROM lane WHERE token IS NOT NULL OR leased_until > '-infinity'`))
          .length === 0,
    );
  });

  it('wakes other replicas if its lane is held elsewhere', async () => {
    await database.query(
      `UPDATE lane SET token = gen_random_uuid(), leased_until = now() + interval '1 hour' WHERE queue = 'inbox'`,
    );
    reported.length = 0;
    await post('elsewhere');
    expect(reported).toEqual(['inbox']);
    await database.query(`UPDATE lane SET token = NULL, leased_until = '-infinity' WHERE queue = 'inbox'`);
  });
});
