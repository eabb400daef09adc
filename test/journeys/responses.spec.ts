import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CONSUME_KEY, READ_KEY } from '../support/app.ts';
import { GroupClient } from '../support/group-client.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const KIB = 1024;
const { database, replica } = sharedReplica({ RESPONSES_LIMIT: '1MiB' });

async function post(type: string, count: number, message: object): Promise<void> {
  const messages = Array.from({ length: count }, (_, n) => ({ type, key: `k-${n}`, ...message }));
  const { status } = await replica.call('POST', '/v1/messages/batch', { body: { messages } });
  expect(status).toBe(202);
  await until(async () => {
    const rows = await database.query(`SELECT FROM inbox WHERE type = $1 AND status = 'finished'`, [type]);
    return rows.length === count;
  });
}

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

describe('a consumer that asks for more than an eighth of RESPONSES_LIMIT', () => {
  const large = { payload: 'x'.repeat(30 * KIB) };

  it('gets less by a poll, and the rest by further ones', async () => {
    const groups = new GroupClient(replica);
    const { group } = await groups.create({ topic: { types: ['polled'] } });
    await post('polled', 20, large);
    const { body: joined } = await groups.call('POST', `/v1/groups/${group}/members`, {});
    const poll = () =>
      replica.call('POST', `/v1/groups/${group}/poll`, {
        key: CONSUME_KEY,
        body: { member: joined.member, max: 5_000, maxBytes: 16 * KIB * KIB },
      });
    const first = await poll();
    expect([first.status, first.body.batches[0].count]).toEqual([200, 4]);
    expect((await poll()).body.batches[0].from).toBe(4);
  });

  it('gets less by a pull', async () => {
    const body = { mode: 'pull', types: ['pulled'] };
    expect((await replica.call('PUT', '/v1/listeners/pulled', { body })).status).toBe(201);
    await post('pulled', 20, large);
    const pulled = await replica.call('POST', '/v1/listeners/pulled/pull', {
      key: CONSUME_KEY,
      body: { max: 500, maxBytes: 16 * KIB * KIB },
    });
    expect([pulled.status, pulled.body.messages.length]).toEqual([200, 4]);
  });
});

describe('payloads that are not read', () => {
  const sockets: Socket[] = [];
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
  });

  it('are refused beyond the limit; other requests are served', async () => {
    await post('downloaded', 1, { id: 'large', payload: 'x'.repeat(900 * KIB) });
    const download = () => replica.call('GET', '/v1/messages/large/payload');
    expect((await download()).status).toBe(200);
    const { hostname, port, host } = new URL(replica.url);
    const request = `GET /v1/messages/large/payload HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${READ_KEY}\r\n\r\n`;
    for (let n = 0; n < 10; n += 1) sockets.push(connect(Number(port), hostname).pause());
    // What the kernel takes for a client that does not read is no longer in memory here: at some point it takes no more.
    await until(async () => {
      for (const socket of sockets) socket.write(request);
      return (await download()).status === 503 && (await download()).status === 503;
    }, 40_000);
    expect((await replica.call('GET', '/v1/messages/large/payload?limit=1')).status).toBe(200);
    expect((await replica.call('GET', '/v1/holds')).status).toBe(200);
    expect((await replica.call('POST', '/v1/messages', { body: { type: 'x', payload: 1 } })).status).toBe(
      202,
    );
    for (const socket of sockets.splice(0)) socket.destroy();
    await until(async () => (await download()).status === 200);
  });
});

describe('the limit in bytes of what a consumer gets', () => {
  const headers = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`h${n}`, 'v'.repeat(2_000)]));

  it('counts headers, of topics as of queues', async () => {
    const groups = new GroupClient(replica);
    const { topic } = await groups.create({ name: 'headed', topic: { types: ['headed'] } });
    const body = { mode: 'pull', types: ['headed'] };
    expect((await replica.call('PUT', '/v1/listeners/headed', { body })).status).toBe(201);
    await post('headed', 100, { payload: 1, headers });
    const page = await replica.call('GET', `/v1/topics/${topic}/messages?limit=500`);
    expect([page.status, page.body.count]).toEqual([200, 65]);
    const pulled = await replica.call('POST', '/v1/listeners/headed/pull', {
      key: CONSUME_KEY,
      body: { max: 100, maxBytes: 100 * KIB },
    });
    expect(bytesOf(pulled.body.messages)).toBeLessThan(110 * KIB);
  });
});
