import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { CONSUME_KEY, startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { ok, type Receiver, type Responder, startReceiver, status } from '../support/receiver.ts';
import { waitUntilKnown } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';
import { processNotifications, QUEUE } from './notification-processor.ts';
import { NOTIFICATION, outages } from './outage-notifications.ts';

const stopping = new AbortController();

let database: TestDatabase;
let replicas: TestApp[];
let telegram: Receiver;
let operators: Receiver;
let processing: Promise<void>;

beforeAll(async () => {
  database = await createDatabase();
  const settings = { EGRESS_ALLOW: '127.0.0.0/8' };
  replicas = [await startApp(database, settings, [outages]), await startApp(database, settings, [outages])];
  telegram = await startReceiver();
  operators = await startReceiver();
  await listen('notifications', QUEUE);
  await listen('operators', { types: ['urn:sluice:alerts/*'], url: operators.url });
  let calls = 0;
  const queue = async (route: 'pull' | 'acknowledge', body: unknown) => {
    // Any replica, as a load balancer would choose.
    const replica = replicas[calls++ % replicas.length]!;
    const answer = await replica.call('POST', `/v1/listeners/notifications/${route}`, {
      body,
      key: CONSUME_KEY,
    });
    if (answer.status !== 200) throw new Error(answer.text);
    return answer.body;
  };
  processing = processNotifications({ queue, telegram: telegram.url }, stopping.signal);
});
beforeEach(() => {
  telegram.received.splice(0);
  telegram.respond = ok;
});
afterAll(async () => {
  stopping.abort();
  await processing;
  for (const replica of replicas) await replica.close();
  await Promise.all([telegram.close(), operators.close()]);
  await database.drop();
});

async function listen(name: string, body: object): Promise<void> {
  expect((await replicas[0]!.call('PUT', `/v1/listeners/${name}`, { body })).status).toBe(201);
  for (const replica of replicas) await waitUntilKnown(replica, name);
}

async function notify(...users: readonly [userId: number, text: string][]): Promise<string[]> {
  const messages = users.map(([userId, text]) => ({
    type: NOTIFICATION,
    key: `chat-${userId}`,
    payload: { userId, text },
  }));
  const { status: code, body } = await replicas[0]!.call('POST', '/v1/messages/batch', {
    body: { messages },
  });
  expect(code).toBe(202);
  return body.messages.map(({ id }: { id: string }) => id);
}

const delivery = async (id: string) =>
  (await replicas[1]!.call('GET', `/v1/messages/${id}`)).body.deliveries[0];
const deliveredAs = (id: string | undefined, wanted: string) =>
  until(async () => (await delivery(id!))?.status === wanted);
const perUser =
  (answers: Record<number, Responder>): Responder =>
  (received, response, count) =>
    (answers[received.body.data.userId] ?? ok)(received, response, count);

describe('outage notifications by pulling', () => {
  it('E2 E4 25 workers keep to 30 a second, and one a second in a chat, in order', async () => {
    const chats = Array.from({ length: 60 }, (_, n) => [100 + n, 'first'] as [number, string]);
    const ids = await notify(...chats, [100, 'second'], [100, 'third']);
    for (const id of ids) await deliveredAs(id, 'finished');
    const times = telegram.received.map(({ at }) => at);
    // Where the process stands still for a moment, the turns of two seconds arrive in one.
    for (const start of times)
      expect(times.filter((at) => at >= start && at < start + 1_000).length).toBeLessThanOrEqual(30 + 30);
    expect((times.at(-1)! - times[0]!) / 1_000).toBeGreaterThanOrEqual(61 / 30 - 0.1);
    const chat = telegram.received.filter(({ body }) => body.key === 'chat-100');
    expect(chat.map(({ body }) => body.data.text)).toEqual(['first', 'second', 'third']);
    for (const n of [1, 2]) expect(chat[n]!.at - chat[n - 1]!.at).toBeGreaterThanOrEqual(995);
  });

  it('E5 E6 drops what a blocked bot or a bad request refuses, and raises an alarm', async () => {
    telegram.respond = perUser({ 201: status(403), 202: status(400) });
    const [blocked, bad, good] = await notify([201, 'x'], [202, 'x'], [203, 'x']);
    await deliveredAs(blocked, 'dead');
    await deliveredAs(bad, 'dead');
    await deliveredAs(good, 'finished');
    expect(await delivery(blocked!)).toMatchObject({ attempt: 1, error: 'responded 403' });
    expect(await delivery(bad!)).toMatchObject({ attempt: 1, error: 'responded 400' });
    const alarm = () => operators.received.find(({ body }) => body.type === 'urn:sluice:alerts/dead-letters');
    await until(alarm);
    expect(alarm()!.body.data).toMatchObject({ listener: 'notifications' });
  });

  it('E5 waits as long as 429 asks for; everything else is tried three times, then it is a dead letter', async () => {
    let asked = 0;
    telegram.respond = perUser({
      301: (received, response, count) => {
        asked += 1;
        (asked === 1 ? status(429, { 'retry-after': '2' }) : ok)(received, response, count);
      },
      302: status(500),
    });
    const [limited, broken] = await notify([301, 'x'], [302, 'x']);
    await deliveredAs(limited, 'finished');
    await deliveredAs(broken, 'dead');
    const [first, second] = telegram.received.filter(({ body }) => body.key === 'chat-301');
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(1_995);
    expect(await delivery(broken!)).toMatchObject({ attempt: 3, error: 'responded 500' });
    expect(telegram.received.filter(({ body }) => body.key === 'chat-302')).toHaveLength(3);
  });
});
