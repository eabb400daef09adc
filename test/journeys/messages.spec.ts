import { describe, expect, it } from '@jest/globals';
import { ADMIN_KEY, PRODUCE_KEY, READ_KEY, startApp } from '../support/app.ts';
import { metricIncreases, metricsOf } from '../support/metrics.ts';
import { sendRaw } from '../support/raw-http.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica({ ROLES: 'api' });

const post = (body: unknown, headers: Record<string, string> = {}) =>
  replica.call('POST', '/v1/messages', { body, headers });

describe('POST /v1/messages', () => {
  it('D1 A1 stores a row with status pending and responds after the commit', async () => {
    const response = await post({
      type: 'urn:ekp:events/candidate-accepted',
      payload: { candidateId: 'c-1' },
    });
    expect(response.status).toBe(202);
    expect(response.body).toEqual({ id: expect.any(String), status: 'pending' });
    expect(response.headers.get('location')).toBe(`/v1/messages/${response.body.id}`);
    const [row] = await database.query('SELECT * FROM inbox WHERE id = $1', [response.body.id]);
    expect(row).toMatchObject({ key: response.body.id, payload: { candidateId: 'c-1' }, status: 'pending' });
  });

  it('accepts any JSON value as a payload, null included, and returns it as it was sent', async () => {
    for (const payload of [
      'null',
      '0',
      '-0',
      '1.50',
      '"x"',
      '[]',
      '{"b":1,"a":[1, 2]}',
      'true',
      '1e2',
      '""',
    ]) {
      const response = await post(`{"type":"t","payload":${payload}}`);
      expect(response.status).toBe(202);
      const read = await replica.call('GET', `/v1/messages/${response.body.id}`);
      expect(read.text).toContain(`"payload":${payload}}`);
    }
  });

  it('returns 200 duplicate for a repeat and stores nothing twice', async () => {
    const body = { id: 'twice', type: 't', payload: { a: 1, b: 2 } };
    expect((await post(body)).status).toBe(202);
    const again = await post({ id: 'twice', type: 't', payload: { b: 2, a: 1 } });
    expect([again.status, again.body]).toEqual([200, { id: 'twice', status: 'pending', duplicate: true }]);
    const other = await post({ id: 'twice', type: 't', payload: { a: 2 } });
    expect([other.status, other.body.type]).toEqual([409, 'urn:sluice:problems/conflict']);
    expect(await database.query(`SELECT 1 FROM inbox WHERE id = 'twice'`)).toHaveLength(1);
  });

  it('reads headers as UTF-8, as clients send them', async () => {
    const headers = { 'idempotency-key': Buffer.from('Zo\u00eb').toString('latin1') };
    const response = await post({ type: 't', payload: 1 }, headers);
    expect([response.status, response.body.id]).toEqual([202, 'Zo\u00eb']);
  });

  it('B4 tracks a producer by its sequence numbers', async () => {
    const send = async (sequence: number) => {
      const response = await post(
        { type: 't', payload: sequence },
        { 'producer-id': 'p', 'producer-sequence': `${sequence}` },
      );
      const { id, status, ...rest } = response.body;
      return [response.status, rest];
    };
    expect(await send(1)).toEqual([202, {}]);
    expect(await send(2)).toEqual([202, {}]);
    expect(await send(2)).toEqual([200, { duplicate: true }]);
    expect(await send(5)).toEqual([202, { gap: { from: 3, to: 4 } }]);
    expect(await send(4)).toEqual([202, { gapFilled: true }]);
    expect(await send(4)).toEqual([200, { duplicate: true }]);
    expect(await send(3)).toEqual([202, { gapFilled: true }]);
    expect(await send(6)).toEqual([202, {}]);
    expect(await database.query(`SELECT sequence FROM inbox WHERE producer = 'p' ORDER BY 1`)).toHaveLength(
      6,
    );
  });

  it('accepts a batch all or nothing', async () => {
    const messages = [1, 2, 3].map((n) => ({ id: `b-${n}`, type: 't', payload: n }));
    const stored = await replica.call('POST', '/v1/messages/batch', { body: { messages } });
    expect([stored.status, stored.body.messages.length]).toEqual([202, 3]);
    const mixed = [
      { id: 'b-9', type: 't', payload: 9 },
      { id: 'b-1', type: 't', payload: 'other' },
    ];
    const refused = await replica.call('POST', '/v1/messages/batch', { body: { messages: mixed } });
    expect([refused.status, refused.body.errors]).toEqual([
      409,
      [{ pointer: '/messages/1', detail: expect.any(String) }],
    ]);
    expect(await database.query(`SELECT 1 FROM inbox WHERE id = 'b-9'`)).toHaveLength(0);
  });

  it('uses the Idempotency-Key as a missing id, in a batch for each of its messages', async () => {
    const keyed = { 'idempotency-key': 'try-1' };
    const first = await post({ type: 't', payload: 1 }, keyed);
    const again = await post({ type: 't', payload: 1 }, keyed);
    expect([first.status, first.body.id, again.status, again.body.duplicate]).toEqual([
      202,
      'try-1',
      200,
      true,
    ]);
    expect((await post({ type: 't', payload: 2 }, keyed)).status).toBe(409);
    expect((await post({ id: 'own', type: 't', payload: 2 }, keyed)).body.id).toBe('own');

    const messages = [1, 2, 3].map((payload) => ({ type: 't', payload }));
    const send = () => replica.call('POST', '/v1/messages/batch', { body: { messages }, headers: keyed });
    const ids = (await send()).body.messages.map(({ id }: { id: string }) => id);
    expect(ids).toEqual(['try-1/0', 'try-1/1', 'try-1/2']);
    const repeated = ids.map((id: string) => ({ id, status: 'pending', duplicate: true }));
    expect((await send()).body.messages).toEqual(repeated);
  });

  it('distinguishes ids by the API key', async () => {
    const body = { id: 'shared', type: 't', payload: 1 };
    const responses = await Promise.all(
      [ADMIN_KEY, PRODUCE_KEY].map((key) => replica.call('POST', '/v1/messages', { body, key })),
    );
    expect(responses.map(({ status }) => status)).toEqual([202, 202]);
    expect(await database.query(`SELECT 1 FROM inbox WHERE id = 'shared'`)).toHaveLength(2);
  });

  it('compares a repeat by its content, not by its notation', async () => {
    const said = {
      id: 'said',
      type: 't',
      key: 'k',
      headers: { a: '1' },
      occurredAt: '2026-01-31T12:00:00.5Z',
      dueAt: '2026-01-31T12:00:00Z',
      expiresAt: '2999-01-31T12:00:00Z',
      payload: { a: 1, b: [1.5] },
    };
    expect((await post(said)).status).toBe(202);
    const same = { ...said, occurredAt: '2026-01-31T13:00:00.500+01:00' };
    expect((await post(same)).status).toBe(200);
    expect(
      (await post(JSON.stringify(same).replace('1.5', '150e-2').replace('"a"', '"\\u0061"'))).status,
    ).toBe(200);
    for (const change of [
      { type: 'u' },
      { key: 'l' },
      { headers: { a: '2' } },
      { headers: {} },
      { occurredAt: '2026-01-31T12:00:00.6Z' },
      { dueAt: '2026-01-31T12:00:01Z' },
      { expiresAt: '2999-01-31T12:00:01Z' },
      { payload: { a: 1, b: [1.5, null] } },
    ]) {
      expect([change, (await post({ ...said, ...change })).status]).toEqual([change, 409]);
    }
  });

  it('B4 continues the sequence through a batch, all or nothing', async () => {
    const send = (sequence: number, messages: unknown[]) =>
      replica.call('POST', '/v1/messages/batch', {
        body: { messages },
        headers: { 'producer-id': 'batches', 'producer-sequence': String(sequence) },
      });
    const some = [1, 2, 3].map((payload) => ({ type: 't', payload }));
    const first = await send(1, some);
    expect(first.body.messages).toEqual(some.map(() => ({ id: expect.any(String), status: 'pending' })));
    const again = await send(1, some);
    expect(again.body.messages).toEqual(
      first.body.messages.map((message: object) => ({ ...message, duplicate: true })),
    );
    // The second is refused because of its id: none of the three numbers is used.
    const conflicting = [some[0], { id: 'twice', type: 't', payload: 'other' }, some[2]];
    expect((await send(4, conflicting)).status).toBe(409);
    const next = await send(4, some);
    expect(next.body.messages).toEqual(some.map(() => ({ id: expect.any(String), status: 'pending' })));
    const jumped = await send(10, some);
    expect(jumped.body.messages[0]).toMatchObject({ gap: { from: 7, to: 9 } });
  });

  it('B4 returns the last number of a producer and what is missing below it, to the api key it belongs to', async () => {
    const ask = async (id: string, key = ADMIN_KEY) =>
      (await replica.call('GET', `/v1/producers/${encodeURIComponent(id)}`, { key })).body;
    const id = 'till 3/b';
    expect(await ask(id)).toEqual({ id, last: -1, missing: [] });
    for (const sequence of [0, 1, 5, 3]) {
      const headers = { 'producer-id': id, 'producer-sequence': String(sequence) };
      expect((await post({ type: 't', payload: sequence }, headers)).status).toBe(202);
    }
    const missing = [
      { from: 2, to: 2 },
      { from: 4, to: 4 },
    ];
    expect(await ask(id)).toEqual({ id, last: 5, missing });
    expect(await ask(id, PRODUCE_KEY)).toEqual({ id, last: -1, missing: [] });
    expect((await ask(id, READ_KEY)).type).toBe('urn:sluice:problems/forbidden');
    for (const bad of ['a\u0000b', 'x'.repeat(201)])
      expect([bad, (await ask(bad)).type]).toEqual([bad, 'urn:sluice:problems/invalid']);
  });

  it('stores a message with a future dueAt as scheduled, with its expiry (A9)', async () => {
    const dueAt = new Date(Date.now() + 3_600_000).toISOString();
    const expiresAt = '2999-12-31T23:59:59.000Z';
    const later = await post({ type: 't', payload: 1, dueAt, expiresAt });
    expect([later.status, later.body.status]).toEqual([202, 'scheduled']);
    const read = await replica.call('GET', later.headers.get('location')!);
    expect(read.body).toMatchObject({ status: 'scheduled', dueAt, expiresAt, settledAt: null });
    const past = await post({ type: 't', payload: 1, dueAt: '2020-01-01T00:00:00Z' });
    expect(past.body.status).toBe('pending');
  });

  it('keeps the traceparent of the request, unless it is malformed or the message has its own', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const headersOf = async (body: object, headers: Record<string, string>) => {
      const response = await post({ type: 't', payload: 1, ...body }, headers);
      expect(response.status).toBe(202);
      return (await replica.call('GET', response.headers.get('location')!)).body.headers;
    };
    expect(await headersOf({}, { traceparent })).toEqual({ traceparent });
    expect(await headersOf({ headers: { a: 'b' } }, { traceparent })).toEqual({ a: 'b', traceparent });
    expect(await headersOf({ headers: { traceparent: 'mine' } }, { traceparent })).toEqual({
      traceparent: 'mine',
    });
    for (const malformed of ['', 'x', traceparent.toUpperCase(), `${traceparent}-`, traceparent.slice(1)]) {
      expect(await headersOf({}, { traceparent: malformed })).toEqual({});
    }
  });

  it('is limited per API key by API_KEY_RATE_LIMIT', async () => {
    const limited = await startApp(database, { ROLES: 'api', API_KEY_RATE_LIMIT: '1' });
    const body = { type: 't', payload: 1 };
    const send = (key: string) => limited.call('POST', '/v1/messages', { body, key });
    const responses = await Promise.all(Array.from({ length: 12 }, () => send(ADMIN_KEY)));
    const refused = responses.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(0);
    expect(responses.filter(({ status }) => status === 202).length).toBe(12 - refused.length);
    expect(refused[0]!.body.type).toBe('urn:sluice:problems/too-many-requests');
    expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect((await send(PRODUCE_KEY)).status).toBe(202);
    await limited.close();
  });
});

describe('the ingest', () => {
  const FLUSHES = ['ingest_flush_messages_count', 'ingest_flush_messages_sum', 'ingest_flush_seconds_count'];
  const one = (n: number) => post({ type: 'together', payload: n });

  it('commits a single message alone', async () => {
    expect(await metricIncreases(replica, FLUSHES, () => post({ type: 't', payload: 1 }))).toEqual([1, 1, 1]);
  });

  it('commits many concurrent messages with few commits', async () => {
    const blocker = await openSession(database);
    await blocker.query('BEGIN; LOCK TABLE inbox IN ACCESS EXCLUSIVE MODE');
    const growth = await metricIncreases(replica, FLUSHES, async () => {
      const first = one(0);
      await untilBlocked(database);
      const others = Array.from({ length: 200 }, (_, n) => one(n));
      await until(async () => (await metricsOf(replica))('ingest_waiting_messages') === 201);
      expect((await metricsOf(replica))('ingest_waiting_bytes')).toBeGreaterThan(201 * 20);
      await blocker.query('COMMIT');
      const responses = await Promise.all([first, ...others]);
      expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 202));
    });
    expect(growth).toEqual([2, 201, 2]);
    expect((await metricsOf(replica))('ingest_waiting_messages')).toBe(0);
    expect((await metricsOf(replica))('ingest_waiting_bytes')).toBe(0);
    await blocker.close();
    const rows = await database.query(`SELECT DISTINCT xmin::text FROM inbox WHERE type = 'together'`);
    expect(rows).toHaveLength(2);
  });

  it('keeps the order in which one connection sent the messages of a key', async () => {
    const sent = Array.from({ length: 300 }, (_, n) => `ordered-${n}`);
    const requests = sent.map((id) => {
      const body = JSON.stringify({
        id,
        key: 'ordered',
        type: 't',
        payload: 'x'.repeat((id.length * 97) % 900),
      });
      const head = `host: x\r\nauthorization: Bearer ${ADMIN_KEY}\r\ncontent-type: application/json`;
      return `POST /v1/messages HTTP/1.1\r\n${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    });
    const last = 'GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';
    const responses = await sendRaw(replica.url, requests.join('') + last);
    expect(`${responses.body}`.match(/HTTP\/1\.1 202/g)).toHaveLength(299);
    const rows = await database.query<{ id: string }>(
      `SELECT id FROM inbox WHERE key = 'ordered' ORDER BY position`,
    );
    expect(rows.map(({ id }) => id)).toEqual(sent);
  });

  it('counts accepted, duplicate and refused messages by reason, also those refused before they are read', async () => {
    const reasons = ['invalid', 'malformed-json', 'conflict', 'unsupported-media-type'];
    const early = ['unauthenticated', 'forbidden', 'too-large'];
    const names = [
      'messages_accepted_total',
      'messages_duplicate_total{reason="id"}',
      'messages_duplicate_total{reason="sequence"}',
      ...[...reasons, ...early].map((reason) => `messages_refused_total{reason="${reason}"}`),
      'messages_refused_total{reason="not-found"}',
    ];
    const growth = await metricIncreases(replica, names, async () => {
      const messages = [1, 2, 3].map((n) => ({ id: `counted-${n}`, type: 't', payload: n }));
      await replica.call('POST', '/v1/messages/batch', { body: { messages } });
      for (const message of messages.slice(0, 2)) await post(message);
      for (const _ of [1, 2])
        await post({ type: 't', payload: 1 }, { 'producer-id': 'counted', 'producer-sequence': '0' });
      await post({ ...messages[0], payload: 'other' });
      await post({ type: 't' });
      await post('{');
      await post('x', { 'content-type': 'text/plain' });
      for (const key of [null, READ_KEY]) await replica.call('POST', '/v1/messages', { body: {}, key });
      await post({ type: 't', payload: 'x'.repeat(2 ** 20) });
      await replica.call('GET', '/v1/messages/nobody-posted-this');
    });
    expect(growth).toEqual([4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
  });
});
