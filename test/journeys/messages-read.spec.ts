import { request } from 'node:http';
import { beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { ADMIN_KEY, PRODUCE_KEY, READ_KEY } from '../support/app.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const { database, replica } = sharedReplica({ ROLES: 'api' });

const get = (path: string) => replica.call('GET', `/v1/messages${path}`, { key: READ_KEY });
const postAll = async (messages: readonly object[]) => {
  const response = await replica.call('POST', '/v1/messages/batch', { body: { messages } });
  expect(response.status).toBe(202);
};
const idsOf = (items: readonly { id: string }[]) => items.map(({ id }) => id);

describe('GET /v1/messages/{id}', () => {
  it('returns a message with all its data, the payload exactly as sent', async () => {
    const body = `{"id":"whole","type":"t","key":"k","headers":{"a":"b"},"occurredAt":"2026-01-31T13:00:00+01:00","payload": {"b":1.50,"a":"\\u0041"} }`;
    const headers = { 'producer-id': 'p', 'producer-sequence': '7' };
    await replica.call('POST', '/v1/messages', { body, headers });
    const { status, text, body: read } = await get('/whole');
    expect(status).toBe(200);
    expect(text).toContain('"payload":{"b":1.50,"a":"\\u0041"}}');
    expect(read).toEqual({
      id: 'whole',
      source: 'urn:sluice:api-keys/admin',
      type: 't',
      key: 'k',
      status: 'pending',
      attempt: 0,
      error: null,
      headers: { a: 'b' },
      occurredAt: '2026-01-31T12:00:00.000Z',
      receivedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      dueAt: null,
      expiresAt: null,
      settledAt: null,
      payloadBytes: 23,
      producer: { id: 'p', sequence: 7 },
      deliveries: [],
      deliveriesTotal: 0,
      groups: [],
      payload: { b: 1.5, a: 'A' },
    });
  });

  const ODD = [
    'a/b',
    '/',
    '//',
    '%',
    '%2F',
    '%zz',
    '100%25',
    '?',
    '#',
    '&a=b',
    ' ',
    '+',
    ';',
    ':id',
    '*',
    'batch',
  ];
  const ODDER = [
    '語',
    '😀',
    'é',
    'e\u0301',
    '"',
    "'",
    '\\',
    '<b>',
    '...',
    '~',
    'x'.repeat(200),
    '😀'.repeat(100),
  ];

  it.each([...ODD, ...ODDER])('finds the id %j by its Location', async (id) => {
    await expectFound(id);
  });

  it('finds any id by its Location', async () => {
    const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 });
    const decent = id.filter((text) => text.length <= 200 && !/[\u0000-\u001f\u007f]|^\.{1,2}$/.test(text));
    await fc.assert(fc.asyncProperty(decent, expectFound), { seed: 20_260_106, numRuns: 60 });
  });

  it.each(['.', '..'])('finds even %j, for a client that does not normalise the path', async (id) => {
    await postAll([{ id, type: 't', payload: 1 }]);
    const { hostname, port } = new URL(replica.url);
    const status = await new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${READ_KEY}` };
      request({ hostname, port, path: `/v1/messages/${id}`, headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .on('error', reject)
        .end();
    });
    expect(status).toBe(200);
  });

  it('requires the source if several used the id, unless one of them is the caller', async () => {
    const body = { id: 'ambiguous', type: 't', payload: 1 };
    for (const key of [ADMIN_KEY, PRODUCE_KEY]) await replica.call('POST', '/v1/messages', { body, key });
    const [admin, produce] = ['urn:sluice:api-keys/admin', 'urn:sluice:api-keys/produce'];
    const asked = await get('/ambiguous');
    expect([asked.status, asked.body.type]).toEqual([409, 'urn:sluice:problems/conflict']);
    expect(asked.body.detail).toContain(`${admin}, ${produce}`);
    expect((await get(`/ambiguous?source=${produce}`)).body.source).toBe(produce);
    expect((await replica.call('GET', '/v1/messages/ambiguous')).body.source).toBe(admin);
    expect((await get('/ambiguous?source=nobody')).status).toBe(404);
  });

  it.each(['/unknown', '/%00', `/${'x'.repeat(201)}`, '/whole?source='])('does not find %s', async (path) => {
    const response = await get(path);
    expect([response.status, response.body.type]).toEqual([404, 'urn:sluice:problems/not-found']);
  });

  async function expectFound(id: string): Promise<void> {
    const posted = await replica.call('POST', '/v1/messages', { body: { id, type: 'odd', payload: id } });
    expect([202, 200]).toContain(posted.status);
    const location = posted.headers.get('location')!;
    expect(location).toBe(`/v1/messages/${encodeURIComponent(id)}`);
    const read = await replica.call('GET', location);
    expect([read.status, read.body.id, read.body.payload]).toEqual([200, id, id]);
  }
});

describe('GET /v1/messages', () => {
  beforeAll(async () => {
    const dueAt = '2999-01-01T00:00:00Z';
    await postAll(
      Array.from({ length: 40 }, (_, n) => ({
        id: `l-${n}`,
        type: n % 2 ? 'list/odd' : 'list/even',
        key: `list-${n % 4}`,
        payload: n,
        ...(n % 8 === 7 ? { dueAt } : {}),
      })),
    );
  });

  it('filters by status, type, key and time, one by one and together, newest first', async () => {
    const listed = async (query: string) => {
      const { status, body } = await get(`?limit=100&${query}`);
      expect([status, body.next]).toEqual([200, null]);
      return idsOf(body.items).map((id) => Number(id.slice(2)));
    };
    const expected = (keep: (n: number) => boolean) => [...Array(40).keys()].filter(keep).reverse();
    expect(await listed('type=list/even')).toEqual(expected((n) => n % 2 === 0));
    expect(await listed('key=list-3')).toEqual(expected((n) => n % 4 === 3));
    expect(await listed('status=scheduled')).toEqual(expected((n) => n % 8 === 7));
    expect(await listed('type=list/odd&status=pending')).toEqual(expected((n) => n % 2 === 1 && n % 8 !== 7));
    expect(await listed('type=list/odd&key=list-3&status=scheduled')).toEqual(expected((n) => n % 8 === 7));
    expect(await listed('type=list/odd&key=list-2')).toEqual([]);
    expect(await listed('status=dead')).toEqual([]);
    const [{ at }] = (await database.query(`SELECT received_at AS at FROM inbox WHERE id = 'l-0'`)) as [
      { at: Date },
    ];
    expect(await listed(`type=list/even&since=${at.toISOString()}`)).toEqual(expected((n) => n % 2 === 0));
    expect(await listed(`since=${new Date(Date.now() + 60_000).toISOString()}`)).toEqual([]);
  });

  it('pages without a repeat or a gap while new messages arrive', async () => {
    const seen: string[] = [];
    let cursor = '';
    for (let page = 0; ; page++) {
      const { body } = await get(`?type=list/even&limit=7${cursor}`);
      expect(body.items.length).toBeLessThanOrEqual(7);
      seen.push(...idsOf(body.items));
      if (body.next === null) break;
      cursor = `&cursor=${encodeURIComponent(body.next)}`;
      await postAll([{ id: `new-${page}`, type: 'list/even', key: 'new', payload: 0 }]);
    }
    expect(seen).toEqual([...Array(20).keys()].map((n) => `l-${38 - 2 * n}`));
    const newest = await get('?type=list/even&limit=1');
    expect(idsOf(newest.body.items)).toEqual(['new-1']);
  });

  it('has no next page when the last one is exactly full', async () => {
    const all = await get('?key=list-1&limit=10');
    expect([all.body.items.length, all.body.next]).toEqual([10, null]);
    const most = await get('?key=list-1&limit=9');
    expect([most.body.items.length, typeof most.body.next]).toEqual([9, 'string']);
  });

  const cursors = [
    '',
    'x',
    '!!!',
    'bnVsbA',
    'e30',
    'W10',
    'IjEi',
    'MS41',
    'LTFlMzA',
    'OTAwNzE5OTI1NDc0MDk5Mw',
    '%00',
  ];
  it.each([
    ...cursors.map((cursor) => `cursor=${cursor}`),
    ...['limit=0', 'limit=501', 'limit=-1', 'limit=1.5', 'limit=', 'limit=1e2', 'limit=x'],
    ...['status=done', 'status=', 'status=Pending', 'since=yesterday', 'since=2026-01-31', 'since='],
    ...['since=0001-01-01T00:00:00%2B01:00', 'type=a&type=b', 'key=a%00', 'typ=a', '__proto__=1', 'offset=5'],
  ])('refuses ?%s', async (query) => {
    const response = await get(`?${query}`);
    expect([response.status, response.body.type]).toEqual([422, 'urn:sluice:problems/invalid']);
  });

  it('accepts a cursor from anywhere in the list, and from beyond it', async () => {
    const at = (position: number) => Buffer.from(String(position)).toString('base64url');
    expect((await get(`?cursor=${at(0)}`)).body).toEqual({ items: [], next: null });
    expect((await get(`?cursor=${at(-1)}`)).body.items).toEqual([]);
    expect((await get(`?limit=1&cursor=${at(Number.MAX_SAFE_INTEGER)}`)).body.items).toHaveLength(1);
  });

  it('suggests the right name for a misspelt filter', async () => {
    expect((await get('?statu=pending&key=a&key=b')).body.detail).toBe(
      '"statu" is not a parameter of this route; did you mean "status"? "key" must be given once.',
    );
  });
});
