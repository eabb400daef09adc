import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { ok, type Receiver, type Responder, startReceiver, status } from '../support/receiver.ts';
import { waitUntilKnown } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';
import { NOTIFICATION, outages, SUBSCRIBED, source, TELEGRAM, TICK, UPDATE } from './outage-notifications.ts';

/** The site that outages are fetched from. */
const site = { data: new Map<string, unknown>(), fetched: [] as string[], broken: new Set<string>() };

let database: TestDatabase;
let one: TestApp;
let other: TestApp;
let server: Server;
let telegram: Receiver;
let operators: Receiver;

beforeAll(async () => {
  server = createServer((request, response) => {
    const args = new URL(request.url!, 'http://voe').search.slice(1);
    site.fetched.push(args);
    response.writeHead(site.broken.has(args) ? 500 : 200).end(JSON.stringify(site.data.get(args) ?? []));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  source.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/disconnections`;

  database = await createDatabase();
  const settings = { EGRESS_ALLOW: '127.0.0.0/8', OUTBOX_POLL: '50ms', INBOX_RETRY_SCHEDULE: '1ms,1ms' };
  one = await startApp(database, settings, [outages]);
  other = await startApp(database, settings, [outages]);
  telegram = await startReceiver();
  operators = await startReceiver();
  await listen('telegram', { ...TELEGRAM, url: telegram.url });
  await listen('operators', { types: ['urn:sluice:alerts/*'], url: operators.url });
});
beforeEach(() => {
  telegram.received.splice(0);
  telegram.respond = ok;
  site.fetched.splice(0);
});
afterAll(async () => {
  await Promise.all([one.close(), other.close()]);
  await Promise.all([telegram.close(), operators.close()]);
  server.closeAllConnections();
  server.close();
  await database.drop();
});

async function listen(name: string, body: object): Promise<void> {
  expect((await one.call('PUT', `/v1/listeners/${name}`, { body })).status).toBe(201);
  for (const replica of [one, other]) await waitUntilKnown(replica, name);
}

async function post(type: string, payload: unknown, key: string): Promise<string> {
  const { status, body } = await one.call('POST', '/v1/messages', { body: { type, key, payload } });
  expect(status).toBe(202);
  return body.id;
}

const story = async (id: string) => (await other.call('GET', `/v1/messages/${id}`)).body;
const finished = (id: string) => until(async () => (await story(id)).status === 'finished');

async function subscribe(userIds: readonly number[], args: string): Promise<void> {
  for (const userId of userIds) {
    await finished(
      await post(SUBSCRIBED, { userId, subscriptionArgs: args, alias: `home of ${userId}` }, args),
    );
  }
}

/** E1: what the schedule does every ten minutes. Resolves when everything that follows from it is handled. */
async function tick(): Promise<void> {
  await finished(await post(TICK, {}, 'schedule'));
  const waiting = `SELECT 1 FROM inbox WHERE settled_at IS NULL`;
  await until(async () => (await database.query(waiting)).length === 0);
}

const reported = () =>
  telegram.received.map(({ body }) => body.data.userId as number).toSorted((a, b) => a - b);
const notify = (userId: number, text = 'x') => post(NOTIFICATION, { userId, text }, `chat-${userId}`);
const delivery = async (id: string) => (await story(id)).deliveries[0];
const deliveredAs = (id: string, wanted: string) =>
  until(async () => (await delivery(id))?.status === wanted);
const perUser =
  (responses: Record<number, Responder>): Responder =>
  (received, response, count) =>
    (responses[received.body.data.userId] ?? ok)(received, response, count);

describe('outage notifications', () => {
  it('E1 E3 fetches each address once per tick, and notifies each user once, only when something changed', async () => {
    await subscribe([1, 2], 'cityId=1&streetId=2');
    await subscribe([3], 'cityId=1&streetId=9');
    site.data.set('cityId=1&streetId=2', [{ from: '10:00', to: '12:00' }]);
    await tick();
    expect(site.fetched.toSorted()).toEqual(['cityId=1&streetId=2', 'cityId=1&streetId=9']);
    await until(() => telegram.received.length === 3);
    expect(reported()).toEqual([1, 2, 3]);
    expect(telegram.received.find(({ body }) => body.data.userId === 1)!.body).toMatchObject({
      type: NOTIFICATION,
      key: 'chat-1',
      data: { alias: 'home of 1', data: [{ from: '10:00', to: '12:00' }] },
    });

    telegram.received.splice(0);
    await tick();
    expect(site.fetched).toHaveLength(4);
    site.data.set('cityId=1&streetId=9', [{ from: '18:00', to: '20:00' }]);
    await tick();
    // A notification from the tick without a change would be here, before this one.
    await until(() => telegram.received.length === 1);
    expect(reported()).toEqual([3]);
  });

  it('E5 E6 makes a dead letter of an update whose site stays broken, without delaying other addresses', async () => {
    await subscribe([4], 'cityId=4&streetId=4');
    site.broken.add('cityId=4&streetId=4');
    site.data.set('cityId=1&streetId=2', [{ from: '11:00', to: '12:00' }]);
    await tick();
    await until(() => telegram.received.length === 2);
    expect(reported()).toEqual([1, 2]);
    const { items } = (await one.call('GET', `/v1/messages?status=dead&type=${UPDATE}`)).body;
    expect(items).toEqual([expect.objectContaining({ key: 'cityId=4&streetId=4', attempt: 3 })]);
    await database.query(`DELETE FROM outage_subscription WHERE args = 'cityId=4&streetId=4'`);
  });

  it('E4 sends at most 30 per second and 1 per second in a chat, over both replicas', async () => {
    const chats = Array.from({ length: 80 }, (_, n) => 100 + n);
    const ids = await Promise.all(chats.map((userId) => notify(userId)));
    const again = [await notify(100, 'second'), await notify(100, 'third')];
    for (const id of [...ids, ...again]) await deliveredAs(id, 'finished');
    const times = telegram.received.map(({ at }) => at);
    for (const start of times) {
      expect(times.filter((at) => at >= start && at < start + 1_000).length).toBeLessThanOrEqual(30 + 30);
    }
    const seconds = (times.at(-1)! - times[0]!) / 1_000;
    expect(seconds).toBeGreaterThan((82 - 60) / 30);
    const chat = telegram.received.filter(({ body }) => body.key === 'chat-100');
    expect(chat.map(({ body }) => body.data.text)).toEqual(['x', 'second', 'third']);
    for (const n of [1, 2]) expect(chat[n]!.at - chat[n - 1]!.at).toBeGreaterThanOrEqual(995);
  });

  it('E5 makes notifications dead at once after a blocked bot or a bad request', async () => {
    telegram.respond = perUser({ 201: status(403), 202: status(400) });
    const [blocked, bad, good] = [await notify(201), await notify(202), await notify(203)];
    await deliveredAs(blocked, 'dead');
    await deliveredAs(bad, 'dead');
    await deliveredAs(good, 'finished');
    expect(await delivery(blocked)).toMatchObject({ attempt: 1, error: 'responded 403' });
    expect(await delivery(bad)).toMatchObject({ attempt: 1, error: 'responded 400' });
    const dead = (await one.call('GET', '/v1/listeners/telegram/deliveries?status=dead')).body.items;
    expect(dead.map(({ id }: { id: string }) => id)).toEqual(
      expect.arrayContaining([(await delivery(blocked)).id, (await delivery(bad)).id]),
    );
  });

  it('E5 waits as long as 429 requires, charges no attempt, and continues', async () => {
    let asked = 0;
    telegram.respond = (received, response, count) => {
      asked += 1;
      (asked === 1 ? status(429, { 'retry-after': '1' }) : ok)(received, response, count);
    };
    const id = await notify(301);
    await deliveredAs(id, 'finished');
    expect(await delivery(id)).toMatchObject({ attempt: 1, attempts: [{ status: 429 }, { status: 204 }] });
    const [first, second] = telegram.received;
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(995);
  });

  it('E4 E5 E6 makes three attempts for all other errors, one per second in a chat, then a dead letter', async () => {
    telegram.respond = perUser({ 401: status(500) });
    const id = await notify(401);
    await deliveredAs(id, 'dead');
    expect(await delivery(id)).toMatchObject({ attempt: 3, error: 'responded 500' });
    expect(telegram.received).toHaveLength(3);
    expect(new Set(telegram.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    const times = telegram.received.map(({ at }) => at);
    for (const n of [1, 2]) expect(times[n]! - times[n - 1]!).toBeGreaterThanOrEqual(995);
  });

  it('E11 E13 disables the listener after five responses of 403 in a row, and alerts the operators', async () => {
    telegram.respond = status(403);
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push(await notify(500 + n));
    const alerts = () =>
      operators.received.filter(({ body }) => body.type === 'urn:sluice:alerts/listener-disabled');
    await until(() => alerts().length === 1);
    expect(alerts()[0]!.body).toMatchObject({
      data: { listener: 'telegram', reason: 'responded 403 5 times in a row' },
    });
    for (const id of ids)
      expect(await delivery(id)).toMatchObject({ status: 'dead', error: 'responded 403' });

    // Another replica knows it within 2 s; from then on nothing is sent.
    for (const replica of [one, other])
      await waitUntilKnown(replica, 'telegram', ({ state }) => state === 'disabled');
    telegram.received.splice(0);
    telegram.respond = ok;
    const pending = await notify(600);
    await deliveredAs(pending, 'pending');
    expect(telegram.received).toEqual([]);
    expect((await one.call('POST', '/v1/listeners/telegram/resume')).status).toBe(200);
    await deliveredAs(pending, 'finished');
    expect(reported()).toEqual([600]);
  });
});
