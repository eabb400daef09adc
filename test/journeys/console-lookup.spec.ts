import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { PRODUCE_KEY, READ_KEY } from '../support/app.ts';
import { GroupClient } from '../support/group-client.ts';
import { status } from '../support/receiver.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open();
});
afterAll(() => cluster.close());

const get = (path: string) => cluster.replica.call('GET', path, { key: READ_KEY });

// biome-ignore lint/suspicious/noExplicitAny: a response
async function found(text: string): Promise<any[]> {
  const { body } = await get(`/v1/find?q=${encodeURIComponent(text)}`);
  return body.items;
}

describe('find', () => {
  it('finds messages by id, of all sources, and keys', async () => {
    for (const key of [undefined, PRODUCE_KEY])
      await cluster.replica.call('POST', '/v1/messages', {
        body: { id: 'm-1', type: 'x', key: 'order/7', payload: 1 },
        ...(key ? { key } : {}),
      });
    const messages = await found('m-1');
    expect(messages).toEqual([
      expect.objectContaining({ kind: 'message', id: 'm-1', source: 'urn:sluice:api-keys/admin', type: 'x' }),
      expect.objectContaining({ kind: 'message', id: 'm-1', source: 'urn:sluice:api-keys/produce' }),
    ]);
    expect(await found('order/7')).toEqual([{ kind: 'key', id: 'order/7' }]);
    await cluster.call('PUT', '/v1/keys/held-only/hold', { reason: 'x' });
    expect(await found('held-only')).toEqual([{ kind: 'key', id: 'held-only' }]);
    expect(await found('order')).toEqual([]);
  });

  it('finds deliveries by their webhook id, and names by their beginning', async () => {
    const receiver = await cluster.listen('billing');
    const [message] = await cluster.post({ type: 'billing/x', key: 'k' });
    await cluster.delivery(message, 'finished');
    const id = String(receiver.received[0]!.headers['webhook-id']);
    expect(await found(id)).toEqual([
      expect.objectContaining({ kind: 'delivery', id, type: 'billing/x', status: 'finished' }),
    ]);
    await new GroupClient(cluster.replica).create({ name: 'bill-topic' });
    await cluster.call('PUT', '/v1/schedules/bill-nightly', { cron: '0 3 * * *', type: 'x', payload: 1 });
    expect((await found('bill')).map(({ kind, id }) => `${kind} ${id}`)).toEqual([
      'listener billing',
      'topic bill-topic',
      'topic bill-topic-readers.dead',
      'group bill-topic-readers',
      'schedule bill-nightly',
    ]);
    expect(await found('%')).toEqual([]);
  });

  it('refuses no text and a text that is too long', async () => {
    for (const query of ['', '?q=', '?q=%20', `?q=${'x'.repeat(257)}`, '?q=a&q=b', '?q=%00', '?p=a'])
      expect([query, (await get(`/v1/find${query}`)).status]).toEqual([query, 422]);
  });
});

describe('a key', () => {
  it('is shown with its hold, its dead letters, what waits and its newest messages', async () => {
    await cluster.listen('fails', { terminalStatuses: [400] }, status(400));
    const [first] = await cluster.post({ type: 'fails/x', key: 'a b' });
    await cluster.delivery(first, 'dead');
    await cluster.call('PUT', '/v1/keys/a%20b/hold', { reason: 'a look' });
    await cluster.post({ type: 'x', key: 'a b' }, { type: 'x', key: 'a b' }, { type: 'x', key: 'other' });
    const key = await until(async () => {
      const { body } = await get('/v1/keys/a%20b');
      return body.waiting.count === 2 ? body : undefined;
    });
    expect(key).toEqual({
      key: 'a b',
      hold: { key: 'a b', kind: 'operator', reason: 'a look', until: null, since: expect.any(String) },
      deadLetters: { count: 1, items: [expect.objectContaining({ listener: 'fails', message: first })] },
      waiting: { count: 2, oldestSeconds: expect.any(Number) },
      recent: [expect.any(Object), expect.any(Object), expect.objectContaining({ id: first })],
    });
    expect(key.recent[0]).not.toHaveProperty('payload');
    await cluster.call('DELETE', '/v1/keys/a%20b/hold');
  });

  it('that no message has is empty', async () => {
    expect((await get('/v1/keys/nothing')).body).toEqual({
      key: 'nothing',
      hold: null,
      deadLetters: { count: 0, items: [] },
      waiting: { count: 0, oldestSeconds: 0 },
      recent: [],
    });
  });
});

describe('a payload', () => {
  const EXACT = '{"b":1.0,"a":1e3,"2":"€","1":[ ]}';

  it('is returned exactly as it was posted, as a file', async () => {
    const id = 'a"/b%\u{1F600}';
    await cluster.replica.call('POST', '/v1/messages', {
      body: `{"id":${JSON.stringify(id)},"type":"x","payload":${EXACT}}`,
    });
    const path = `/v1/messages/${encodeURIComponent(id)}/payload`;
    const payload = await get(path);
    expect([payload.status, payload.text]).toEqual([200, EXACT]);
    expect(Object.fromEntries(payload.headers)).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'content-disposition': 'attachment; filename="a__b___.json"',
      'x-content-type-options': 'nosniff',
      'payload-bytes': String(Buffer.byteLength(EXACT)),
    });
    const upToEuro = EXACT.indexOf('€');
    for (const limit of [upToEuro, upToEuro + 1, upToEuro + 2])
      expect((await get(`${path}?limit=${limit}`)).text).toBe(EXACT.slice(0, upToEuro));
    expect((await get(`${path}?limit=${upToEuro + 3}`)).text).toBe(EXACT.slice(0, upToEuro + 1));
    expect((await get(`${path}?limit=100000`)).text).toBe(EXACT);
    for (const limit of ['0', '-1', 'x']) expect((await get(`${path}?limit=${limit}`)).status).toBe(422);
    expect((await get('/v1/messages/none/payload')).status).toBe(404);
  });

  it('can be left out of the message, whose view has its size', async () => {
    await cluster.replica.call('POST', '/v1/messages', {
      body: `{"id":"sized","type":"x","payload":${EXACT}}`,
    });
    const whole = await get('/v1/messages/sized');
    expect(whole.body.payloadBytes).toBe(Buffer.byteLength(EXACT));
    expect(whole.text).toContain(`"payload":${EXACT}`);
    const bare = await get('/v1/messages/sized?payload=none');
    expect(bare.body).toMatchObject({ id: 'sized', payloadBytes: Buffer.byteLength(EXACT), deliveries: [] });
    expect(bare.body).not.toHaveProperty('payload');
    expect((await get('/v1/messages/sized?payload=all')).status).toBe(422);
    expect((await get('/v1/messages')).body.items[0]).not.toHaveProperty('payload');
  });
});

describe('a delivery', () => {
  it('is shown by its id, and sent again with the same one', async () => {
    const receiver = await cluster.listen('again');
    const [message] = await cluster.post({ type: 'again/x', key: 'k-1', payload: { n: 1 } });
    const { id } = await cluster.delivery(message, 'finished');
    const path = `/v1/deliveries/${id}`;
    expect((await get(path)).body).toMatchObject({
      id,
      messageId: message,
      source: 'urn:sluice:api-keys/admin',
      type: 'again/x',
      key: 'k-1',
      listener: 'again',
      status: 'finished',
      attempts: [{ attempt: 1, status: 204 }],
    });
    expect((await get(`${path}?message=${message}`)).body.id).toBe(id);
    expect((await get(`${path}?message=other`)).status).toBe(404);

    const resent = await cluster.call('POST', `${path}/resend`, { reason: 'they lost it' });
    expect([resent.status, resent.body]).toEqual([202, { id, status: 'held', replay: expect.any(String) }]);
    await until(() => receiver.received.length === 2);
    expect(receiver.received.map(({ headers }) => headers['webhook-id'])).toEqual([id, id]);
    expect(receiver.received[1]!.text).toBe(receiver.received[0]!.text);
    await cluster.delivery(message, 'finished');
    const [entry] = (await get('/v1/audit?action=listener.*')).body.items;
    expect(entry).toMatchObject({
      action: 'listener.resend',
      target: 'again',
      filter: { delivery: id },
      count: 1,
      reason: 'they lost it',
    });
  });

  it('is not sent again while it is pending, nor if it was discarded', async () => {
    await cluster.listen('dead', { terminalStatuses: [400] }, status(400));
    const [message] = await cluster.post({ type: 'dead/x' });
    const { id } = await cluster.delivery(message, 'dead');
    await cluster.call('POST', '/v1/listeners/dead/pause');
    expect((await cluster.call('POST', `/v1/deliveries/${id}/resend`)).status).toBe(202);
    await cluster.call('DELETE', `/v1/dead-letters/${id}`, { reason: 'x' });
    expect((await cluster.call('POST', `/v1/deliveries/${id}/resend`)).status).toBe(409);
    const [waiting] = await cluster.post({ type: 'dead/y' });
    const pending = await cluster.delivery(waiting, 'pending');
    const refused = await cluster.call('POST', `/v1/deliveries/${pending.id}/resend`);
    expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('pending')]);
    const unknown = '00000000-0000-4000-8000-000000000000';
    expect((await cluster.call('POST', `/v1/deliveries/${unknown}/resend`)).status).toBe(404);
    expect((await get('/v1/deliveries/x')).status).toBe(404);
    expect(
      (await cluster.replica.call('POST', `/v1/deliveries/${id}/resend`, { key: READ_KEY })).status,
    ).toBe(403);
  });
});
