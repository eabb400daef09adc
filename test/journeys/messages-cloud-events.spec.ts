import { describe, expect, it } from '@jest/globals';
import { CloudEvent, type CloudEventV1, emitterFor, HTTP, httpTransport, Mode } from 'cloudevents';
import { ADMIN_KEY, type ApiResponse, PRODUCE_KEY } from '../support/app.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const { database, replica } = sharedReplica({ ROLES: 'api' });

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const MODES = [Mode.STRUCTURED, Mode.BINARY] as const;

const ORDER: Partial<CloudEventV1<unknown>> = {
  source: '/orders',
  type: 'com.example.order-placed',
  subject: 'order-7',
  time: '2026-01-31T12:00:00.250Z',
  dataschema: 'https://example.com/order.json',
  traceparent: TRACE,
  comexampletenant: 'acme',
  data: { order: 7, lines: [{ sku: 'é', price: 1.5 }] },
};
let next = 0;

function orderEvent(more: Partial<CloudEventV1<unknown>> = {}): CloudEvent<unknown> {
  next += 1;
  return new CloudEvent({ ...ORDER, id: `e-${next}`, ...more });
}

/** With the library's own emitter, over its own HTTP. */
async function emit(event: CloudEvent<unknown>, mode: Mode, key = ADMIN_KEY): Promise<unknown> {
  const send = emitterFor(httpTransport(`${replica.url}/v1/messages`), { binding: HTTP, mode });
  const { body } = (await send(event, { headers: { authorization: `Bearer ${key}` } })) as { body: string };
  return JSON.parse(body);
}

async function stored(id: string) {
  const rows = await database.query(
    `SELECT id, source, type, key, payload, headers, occurred_at AS "occurredAt" FROM inbox WHERE id = $1`,
    [id],
  );
  expect(rows).toHaveLength(1);
  return rows[0];
}

describe.each(MODES)('a CloudEvent sent in %s mode by the official library', (mode) => {
  it('becomes a message, attribute by attribute', async () => {
    const event = orderEvent();
    expect(await emit(event, mode)).toEqual({ id: event.id, status: 'pending' });
    expect(await stored(event.id)).toEqual({
      id: event.id,
      source: '/orders',
      type: 'com.example.order-placed',
      key: 'order-7',
      payload: ORDER.data,
      occurredAt: new Date('2026-01-31T12:00:00.250Z'),
      headers: {
        ...(mode === Mode.BINARY ? { datacontenttype: 'application/json; charset=utf-8' } : {}),
        subject: 'order-7',
        dataschema: 'https://example.com/order.json',
        traceparent: TRACE,
        comexampletenant: 'acme',
      },
    });
  });

  it('has its partitionkey as key, else its subject, else its id', async () => {
    const both = orderEvent({ partitionkey: 'customer-3' });
    const neither = orderEvent({ subject: undefined as never });
    await emit(both, mode);
    await emit(neither, mode);
    expect(await stored(both.id)).toMatchObject({ key: 'customer-3', headers: { subject: 'order-7' } });
    expect(await stored(neither.id)).toMatchObject({ key: neither.id });
  });

  it('may have numbers and booleans as extensions, which become text', async () => {
    const event = orderEvent({ comexampleretries: 3, comexampleurgent: true });
    await emit(event, mode);
    expect(await stored(event.id)).toMatchObject({
      headers: { comexampleretries: '3', comexampleurgent: 'true' },
    });
  });

  it('is the same message with any API key and in any mode', async () => {
    const event = orderEvent({ time: '2026-01-31T12:00:00Z', datacontenttype: 'application/json' });
    expect(await emit(event, mode, ADMIN_KEY)).toEqual({ id: event.id, status: 'pending' });
    const again = { id: event.id, status: 'pending', duplicate: true };
    for (const other of MODES) expect(await emit(event, other, PRODUCE_KEY)).toEqual(again);
    const retraced = event.cloneWith({ traceparent: TRACE.replace('b7', 'c8') }) as CloudEvent<unknown>;
    expect(await emit(retraced, mode)).toEqual(again);
    await stored(event.id);
    const changed = event.cloneWith({ data: { order: 8 } }) as CloudEvent<unknown>;
    expect(await emit(changed, mode)).toMatchObject({ status: 409, type: 'urn:sluice:problems/conflict' });
  });

  it('is another message from another source', async () => {
    const event = orderEvent();
    await emit(event, mode);
    const elsewhere = event.cloneWith({ source: '/returns' }) as CloudEvent<unknown>;
    expect(await emit(elsewhere, mode)).toEqual({ id: event.id, status: 'pending' });
    const ambiguous = await replica.call('GET', `/v1/messages/${event.id}`);
    expect([ambiguous.status, ambiguous.body.detail]).toEqual([
      409,
      expect.stringContaining('/orders, /returns'),
    ]);
    const one = await replica.call(
      'GET',
      `/v1/messages/${event.id}?source=${encodeURIComponent('/returns')}`,
    );
    expect([one.status, one.body.source]).toEqual([200, '/returns']);
  });

  it('keeps data that is text, XML or bytes, with the encoding of the bytes', async () => {
    const text = orderEvent({ datacontenttype: 'text/plain', data: 'Grüße, "quoted"\n' });
    const xml = orderEvent({ datacontenttype: 'application/xml', data: '<a b="c"/>' });
    const bytes = orderEvent({ datacontenttype: 'application/octet-stream', data: Buffer.from([0, 1, 255]) });
    for (const event of [text, xml, bytes])
      expect(await emit(event, mode)).toHaveProperty('status', 'pending');
    expect(await stored(text.id)).toMatchObject({ payload: 'Grüße, "quoted"\n' });
    expect(await stored(xml.id)).toMatchObject({
      payload: '<a b="c"/>',
      headers: { datacontenttype: 'application/xml' },
    });
    expect(await stored(bytes.id)).toMatchObject({
      payload: 'AAH/',
      headers: { datacontenttype: 'application/octet-stream', datacontentencoding: 'base64' },
    });
  });
});

describe('a CloudEvent', () => {
  const post = (body: string | undefined, headers: Record<string, string>): Promise<ApiResponse> =>
    replica.call('POST', '/v1/messages', { body, headers });
  const STRUCTURED = { 'content-type': 'application/cloudevents+json; charset=UTF-8' };
  const BATCH = { 'content-type': 'application/cloudevents-batch+json' };
  const BINARY = { 'ce-specversion': '1.0', 'ce-source': '/orders', 'ce-type': 't' };

  it('is accepted in batches, all or nothing', async () => {
    const events = [orderEvent(), orderEvent(), orderEvent()];
    const write = (batch: CloudEvent<unknown>[]) =>
      `[${batch.map((event) => HTTP.structured(event).body).join()}]`;
    const first = await post(write(events.slice(0, 2)), BATCH);
    const pending = events.map(({ id }) => ({ id, status: 'pending' }));
    expect([first.status, first.body]).toEqual([202, { messages: pending.slice(0, 2) }]);
    const again = await post(write(events), BATCH);
    expect(again.body.messages).toEqual([
      { ...pending[0], duplicate: true },
      { ...pending[1], duplicate: true },
      pending[2],
    ]);
    const changed = [orderEvent(), events[1]!.cloneWith({ data: 1 }) as CloudEvent<unknown>];
    const refused = await post(write(changed), BATCH);
    expect([refused.status, refused.body.errors]).toEqual([
      409,
      [{ pointer: '/1', detail: expect.any(String) }],
    ]);
    expect(await database.query('SELECT 1 FROM inbox WHERE id = $1', [changed[0]!.id])).toEqual([]);
  });

  it('without data has the payload null, in either mode', async () => {
    const structured = await post(
      '{"specversion":"1.0","id":"n-1","source":"/orders","type":"t"}',
      STRUCTURED,
    );
    const binary = await post(undefined, { ...BINARY, 'ce-id': 'n-2' });
    const emptyJson = await post('', { ...BINARY, 'ce-id': 'n-3', 'content-type': 'application/json' });
    expect([structured.status, binary.status, emptyJson.status]).toEqual([202, 202, 202]);
    for (const id of ['n-1', 'n-2', 'n-3']) expect(await stored(id)).toMatchObject({ payload: null });
  });

  it('keeps its data exactly as sent', async () => {
    const data = '{"b": 1.50, "a":"\\u0041\\/"}';
    await post(`{"specversion":"1.0","id":"l-1","source":"/orders","type":"t","data": ${data} }`, STRUCTURED);
    await post(` ${data}\n`, { ...BINARY, 'ce-id': 'l-2', 'content-type': 'application/json' });
    await post('"\\u0041"', { ...BINARY, 'ce-id': 'l-3', 'content-type': 'application/vnd.a+json' });
    const rows = await database.query<{ payload: string }>(
      `SELECT payload::text AS payload FROM inbox WHERE id IN ('l-1', 'l-2', 'l-3') ORDER BY id`,
    );
    expect(rows.map(({ payload }) => payload)).toEqual([data, data, '"\\u0041"']);
  });

  it('may percent-encode and quote its headers, and expires at its expirytime', async () => {
    const response = await post('1', {
      ...BINARY,
      'ce-id': '%E8%AA%9E%20%F0%9F%98%80',
      'ce-subject': '"Euro%20%E2%82%AC"',
      'ce-expirytime': '2026-02-01T00:00:00Z',
    });
    expect(response.body).toEqual({ id: '語 😀', status: 'pending' });
    expect(response.headers.get('location')).toBe(`/v1/messages/${encodeURIComponent('語 😀')}`);
    const read = await replica.call('GET', response.headers.get('location')!);
    expect(read.body).toMatchObject({ key: 'Euro €', expiresAt: '2026-02-01T00:00:00.000Z', payload: 1 });
  });

  /** The bytes of a header from a client that sends UTF-8. */
  const raw = (text: string) => Buffer.from(text).toString('latin1');

  it.each([
    ['Zo\u00eb', raw('Zo\u00eb')],
    ['Zo\u00eb 語', raw('Zo\u00eb%20語')],
    ['a"b\\c', '"a\\"b\\\\c"'],
    ['50%', '50%'],
    ['50% & 5%2', '50%25 & 5%252'],
    ['100%zz €', '100%zz %E2%82%AC'],
    ['"', '"'],
  ])('is stored as %j if its header is %j', async (subject, header) => {
    next += 1;
    const headers = { ...BINARY, 'ce-id': `h-${next}`, 'ce-subject': header };
    expect((await post('1', headers)).status).toBe(202);
    expect(await stored(`h-${next}`)).toMatchObject({ key: subject, headers: { subject } });
  });

  it('has extensions of up to 16 KiB in its headers; more are refused', async () => {
    const extensions = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`x${n}`, 'v'.repeat(2_048)]));
    const prefixed = (count: number) =>
      Object.fromEntries(Object.entries(extensions(count)).map(([name, value]) => [`ce-${name}`, value]));
    expect((await post('1', { ...BINARY, ...prefixed(7), 'ce-id': 'h-fits' })).status).toBe(202);
    expect(await stored('h-fits')).toMatchObject({ headers: extensions(7) });
    const refused = await post('1', { ...BINARY, ...prefixed(8), 'ce-id': 'h-too-large' });
    expect([refused.status, refused.body.type]).toEqual([431, 'urn:sluice:problems/header-too-large']);
    const long = await post('1', { ...BINARY, 'ce-x': 'v'.repeat(2_049), 'ce-id': 'h-too-long' });
    expect([long.status, long.body.errors[0].pointer]).toEqual([422, '/x']);
  });

  it('B4 uses the sequence of its API key and Producer-Id, for all sources', async () => {
    const send = async (sequence: number, source: string, key = ADMIN_KEY) => {
      next += 1;
      const producer = { 'producer-id': 'p', 'producer-sequence': String(sequence) };
      const headers = { ...BINARY, ...producer, 'ce-source': source, 'ce-id': `n-${next}` };
      const { status, body } = await replica.call('POST', '/v1/messages', { body: '1', headers, key });
      const { id, status: _, ...rest } = body;
      return [status, rest];
    };
    expect(await send(1, '/a')).toEqual([202, {}]);
    expect(await send(2, '/b')).toEqual([202, {}]);
    expect(await send(4, '/a')).toEqual([202, { gap: { from: 3, to: 3 } }]);
    expect(await send(3, '/b')).toEqual([202, { gapFilled: true }]);
    expect(await send(2, '/a')).toEqual([200, { duplicate: true }]);
    for (const number of [1, 2]) expect(await send(number, '/a', PRODUCE_KEY)).toEqual([202, {}]);
    const rows = await database.query(
      `SELECT producer, array_agg(sequence::int ORDER BY sequence) AS numbers FROM inbox WHERE producer IS NOT NULL GROUP BY 1 ORDER BY 1`,
    );
    expect(rows).toEqual([
      { producer: 'admin/p', numbers: [1, 2, 3, 4] },
      { producer: 'produce/p', numbers: [1, 2] },
    ]);
  });

  it('has its own trace rather than that of the request', async () => {
    const request = { traceparent: TRACE.replace('b7', 'd9') };
    await post('1', { ...BINARY, ...request, 'ce-id': 't-1' });
    await post('1', { ...BINARY, ...request, 'ce-id': 't-2', 'ce-traceparent': TRACE });
    expect(await stored('t-1')).toMatchObject({ headers: { traceparent: request.traceparent } });
    expect(await stored('t-2')).toMatchObject({ headers: { traceparent: TRACE } });
  });
});
