import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Sluice as FetchSluice,
  type SluiceEvent,
  type SluiceOptions,
} from '../../packages/client/src/index.ts';
import { Sluice as NodeSluice } from '../../packages/client/src/node.ts';
import { PRODUCE_KEY } from '../support/app.ts';
import { type Fault, type FaultProxy, faultProxiesPerTest } from '../support/fault-proxy.ts';
import { sharedReplicas } from '../support/shared-replica.ts';

const { database, replicas } = sharedReplicas(2, { ROLES: 'api', BATCH_BODY_LIMIT: '64KiB' });
const startProxy = faultProxiesPerTest();
const events: SluiceEvent[] = [];
afterEach(() => void events.splice(0));
let run = 0;

const ENTRIES = [
  ['fetch', (options: SluiceOptions) => new FetchSluice(options)],
  ['node:http', (options: SluiceOptions) => new NodeSluice(options)],
] as const;

describe.each(ENTRIES)('a producer over %s', (_name, open) => {
  const onEvent = (event: SluiceEvent) => void events.push(event);
  const sluiceTo = (...url: string[]) => open({ url, apiKey: PRODUCE_KEY, onEvent });

  const proxyTo = (index: number, next?: (n: number) => Fault): Promise<FaultProxy> => {
    let n = 0;
    return startProxy(replicas[index]!.url, () => next?.(n++) ?? 'pass');
  };

  it('B5 B12 sends messages in batches, numbered from 0, and returns an id for each', async () => {
    const proxy = await proxyTo(0);
    const id = newId();
    const producer = await sluiceTo(proxy.url).producer({ id });
    const sent = await Promise.all(
      range(700).map((n) => producer.send({ type: 'orders', key: `k-${n % 7}`, payload: { n } })),
    );
    expect(sent).toEqual(sent.map(() => ({ id: expect.any(String), duplicate: false, gap: undefined })));
    expect(postsOf(proxy).map(({ headers }) => headers['producer-sequence'])).toEqual(['0', '500']);
    const rows = await database.query<{ id: string; type: string; payload: { n: number }; key: string }>(
      'SELECT id, type, key, payload FROM inbox WHERE producer = $1 ORDER BY position',
      [id],
    );
    expect(rows).toEqual(
      sent.map((one, n) => ({ id: one.id, type: 'orders', key: `k-${n % 7}`, payload: { n } })),
    );
  });

  it('B12 sends to topics, in order per key, and fails what no topic takes', async () => {
    for (const topic of ['letters', 'figures'])
      await replicas[0]!.call('PUT', `/v1/topics/${topic}`, { body: { types: [topic, `${topic}/*`] } });
    const proxy = await proxyTo(0);
    const id = newId();
    const producer = await sluiceTo(proxy.url).producer({ id });
    const sends = range(40).map((n) =>
      producer.send({ topic: n % 2 ? 'letters' : 'figures', key: `k-${n % 10}`, payload: n }),
    );
    const [typed, nowhere, other] = await Promise.allSettled([
      producer.send({ topic: 'letters', type: 'letters/a', key: 'k-1', payload: 40 }),
      producer.send({ topic: 'nowhere', payload: 41 }),
      producer.send({ topic: 'letters', type: 'figures', payload: 42 }),
    ]);
    await Promise.all(sends);
    expect([typed.status, nowhere, other]).toEqual([
      'fulfilled',
      { status: 'rejected', reason: expect.objectContaining({ status: 404 }) },
      { status: 'rejected', reason: expect.objectContaining({ status: 422 }) },
    ]);
    expect(postsOf(proxy).length).toBeLessThan(10);
    const rows = await database.query<{ key: string; payload: number; type: string }>(
      'SELECT key, payload, type FROM inbox WHERE producer = $1 ORDER BY position',
      [id],
    );
    for (const key of range(10).map((n) => `k-${n}`)) {
      const payloads = rows.filter((row) => row.key === key).map(({ payload }) => payload);
      expect(payloads).toEqual([...payloads].sort((a, b) => a - b));
    }
    expect(rows.filter(({ type }) => type === 'figures')).toHaveLength(20);
    await sequencesOf(id);
  });

  it('sends all fields of a message as they are', async () => {
    const producer = await sluiceTo(replicas[0]!.url).producer({ id: newId(), linger: 0 });
    const id = `own-${run}-${_name}`;
    const occurredAt = new Date('2026-11-18T10:00:00Z');
    const message = { id, type: 'urn:t', key: 'Zoë', headers: { a: 'b' }, occurredAt, payload: 'ö\u2028"' };
    expect(await producer.send({ ...message, dueAt: '2036-01-01T00:00:00Z' })).toMatchObject({ id });
    const [row] = await database.query(
      'SELECT type, key, headers, payload, due_at FROM inbox WHERE id = $1',
      [id],
    );
    const dueAt = new Date('2036-01-01T00:00:00Z');
    expect(row).toEqual({
      type: 'urn:t',
      key: 'Zoë',
      headers: { a: 'b' },
      payload: 'ö\u2028"',
      due_at: dueAt,
    });
    expect(await producer.send({ ...message, dueAt: '2036-01-01T00:00:00Z' })).toMatchObject({
      duplicate: true,
    });
  });

  it('B5 repeats the same request, unchanged, when a response is lost; nothing is stored twice', async () => {
    const proxy = await proxyTo(0, (n) => (n === 1 ? 'lost' : n === 2 ? 'cut' : 'pass'));
    const id = newId();
    const producer = await sluiceTo(proxy.url).producer({ id });
    const sent = await Promise.all(range(3).map((n) => producer.send({ type: 't', payload: n })));
    expect(sent.map(({ duplicate }) => duplicate)).toEqual([true, true, true]);
    const posts = postsOf(proxy);
    expect(posts).toHaveLength(3);
    for (const { body, headers } of posts) {
      expect(body).toBe(posts[0]!.body);
      expect(headers['producer-sequence']).toBe('0');
    }
    expect(await sequencesOf(id)).toEqual([0, 1, 2]);
  });

  it('B5 loses nothing, leaves no gap, stores nothing twice and keeps the order, whatever fails', async () => {
    const faults: Fault[] = [
      'pass',
      'lost',
      { status: 503, retryAfter: 0 },
      'pass',
      'hang',
      'refuse',
      { status: 502 },
      'cut',
      'pass',
      { status: 429, retryAfter: 0 },
      { status: 500 },
      'pass',
      { status: 408 },
    ];
    const both = [
      await proxyTo(0, (n) => faults[(n * 5) % faults.length]!),
      await proxyTo(1, (n) => faults[(n * 7 + 3) % faults.length]!),
    ];
    const id = newId();
    const url = both.map((proxy) => proxy.url);
    const sluice = open({ url, apiKey: PRODUCE_KEY, timeout: '300ms', onEvent });
    const producer = await sluice.producer({
      id,
      maxBatch: 20,
      retries: 20,
    });
    const count = 600;
    const sent = await Promise.all(
      range(count).map((n) => producer.send({ type: 't', key: `${id}-${n % 5}`, payload: n })),
    );
    expect(new Set(sent.map((one) => one.id)).size).toBe(count);
    expect(sent.filter(({ gap }) => gap)).toEqual([]);
    expect(await sequencesOf(id)).toEqual(range(count));
    expect(await payloadsOf(id)).toEqual(range(count));
    for (const fault of ['lost', '503', 'hang', 'refuse', '502', 'cut', '429', '500', '408'])
      expect([fault, both.some((proxy) => proxy.faults.get(fault))]).toEqual([fault, true]);
    expect(events.some(({ event }) => event === 'request.retried')).toBe(true);
  });

  it('waits as long as a response asks for before it tries again', async () => {
    const id = newId();
    const proxy = await proxyTo(0, (n) => (n === 1 ? { status: 503, retryAfter: 1 } : 'pass'));
    const producer = await sluiceTo(proxy.url).producer({ id, linger: 0 });
    const before = performance.now();
    await producer.send({ type: 't', payload: 1 });
    expect(performance.now() - before).toBeGreaterThan(990);
  });

  it('goes on to the next URL at once, and stays with the one that responds', async () => {
    const [down, up] = [await proxyTo(0, () => 'refuse'), await proxyTo(1)];
    const producer = await sluiceTo(down.url, up.url).producer({ id: newId(), linger: 0, retries: 0 });
    for (const n of range(5)) await producer.send({ type: 't', payload: n });
    expect(down.requests).toHaveLength(1);
    expect(up.requests).toHaveLength(6);
    expect(events).toEqual([]);
  });

  it('B4 B5 continues after a restart with the number after its last one', async () => {
    const id = newId();
    const first = await sluiceTo(replicas[0]!.url).producer({ id });
    await Promise.all(range(10).map((n) => first.send({ type: 't', payload: n })));
    const second = await sluiceTo(replicas[1]!.url).producer({ id });
    const sent = await second.send({ type: 't', payload: 10 });
    expect(sent).toMatchObject({ duplicate: false, gap: undefined });
    expect(await sequencesOf(id)).toEqual(range(11));
  });

  it('fails the sends that the service refuses, and only these, without a gap in the numbers', async () => {
    const id = newId();
    const producer = await sluiceTo(replicas[0]!.url).producer({ id });
    await producer.send({ type: 't', id: `${id}-taken`, payload: 1 });
    const results = await Promise.allSettled([
      producer.send({ type: 't', payload: 'a' }),
      producer.send({ type: 'urn:sluice:alerts/x', payload: 'b' }),
      producer.send({ type: 't', payload: { text: '\u0000' } }),
      producer.send({ type: 't', id: `${id}-taken`, payload: 2 }),
      producer.send({ type: 't', payload: 'c' }),
    ]);
    expect(results.map((result) => (result.status === 'rejected' ? result.reason : result.value))).toEqual([
      expect.objectContaining({ duplicate: false }),
      expect.objectContaining({
        name: 'SluiceError',
        status: 422,
        errors: [expect.objectContaining({ pointer: '/type' })],
      }),
      expect.objectContaining({
        status: 422,
        errors: [expect.objectContaining({ pointer: '/payload/text' })],
      }),
      expect.objectContaining({ status: 409, type: 'urn:sluice:problems/conflict' }),
      expect.objectContaining({ duplicate: false }),
    ]);
    expect(await payloadsOf(id)).toEqual([1, 'a', 'c']);
    expect(await sequencesOf(id)).toEqual([0, 1, 2]);
  });

  it('halves a batch that is too large for the service, and fails a single message that is', async () => {
    const id = newId();
    const producer = await sluiceTo(replicas[0]!.url).producer({ id });
    const results = await Promise.allSettled(
      range(9).map((n) => producer.send({ type: 't', payload: 'x'.repeat(n === 4 ? 70_000 : 20_000) })),
    );
    expect(results.map(({ status }) => status)).toEqual(
      range(9).map((n) => (n === 4 ? 'rejected' : 'fulfilled')),
    );
    expect(results[4]).toMatchObject({ reason: { status: 413 } });
    expect(await sequencesOf(id)).toEqual(range(8));
  });

  it('gives a send a new number when another process has used it: nothing is lost, nothing doubled', async () => {
    const id = newId();
    const both = await Promise.all(
      replicas.map(({ url }) => sluiceTo(url).producer({ id, maxBatch: 3, linger: 0, retries: 20 })),
    );
    const sends = range(60).map((n) => both[n % 2]!.send({ type: 't', payload: n }));
    expect((await Promise.all(sends)).map((sent) => sent.duplicate)).toEqual(range(60).map(() => false));
    expect((await payloadsOf(id)).sort((a, b) => Number(a) - Number(b))).toEqual(range(60));
    expect(await sequencesOf(id)).toEqual(range(60));
    expect(events.map(({ event }) => event)).toContain('producer.renumbered');
  });

  it('fails a send when the retries are used up, and continues without a gap', async () => {
    let isDown = false;
    const proxy = await proxyTo(0, () => (isDown ? { status: 503 } : 'pass'));
    const id = newId();
    const producer = await sluiceTo(proxy.url).producer({ id, retries: 2 });
    await producer.send({ type: 't', payload: 0 });
    isDown = true;
    await expect(producer.send({ type: 't', payload: 'lost' })).rejects.toMatchObject({
      name: 'SluiceError',
      status: 503,
      retryable: true,
    });
    expect(postsOf(proxy)).toHaveLength(1 + 3);
    isDown = false;
    expect(await producer.send({ type: 't', payload: 1 })).toMatchObject({ gap: undefined });
    expect(await payloadsOf(id)).toEqual([0, 1]);
    expect(await sequencesOf(id)).toEqual([0, 1]);
  });

  it('reports a gap that the numbers of its id have', async () => {
    const id = newId();
    const producer = await sluiceTo(replicas[0]!.url).producer({ id, linger: 0 });
    await producer.send({ type: 't', payload: 0 });
    await database.query('UPDATE producer SET last = -1 WHERE id = $1', [id]);
    await database.query('UPDATE inbox SET sequence = 99 WHERE producer = $1', [id]);
    expect(await producer.send({ type: 't', payload: 2 })).toMatchObject({ gap: undefined });
    await database.query('UPDATE producer SET last = -1 WHERE id = $1', [id]);
    expect(await producer.send({ type: 't', payload: 3 })).toMatchObject({ gap: { from: 1, to: 1 } });
  });

  it('flushes when it is closed, and takes nothing after that', async () => {
    const id = newId();
    const sends: Promise<unknown>[] = [];
    {
      const producer = await sluiceTo(replicas[0]!.url).producer({ id, linger: '1h' });
      sends.push(...range(5).map((n) => producer.send({ type: 't', payload: n })));
      await producer[Symbol.asyncDispose]();
      await expect(producer.send({ type: 't', payload: 5 })).rejects.toMatchObject({
        type: 'urn:sluice:client/closed',
      });
    }
    expect(await sequencesOf(id)).toEqual(range(5));
    await Promise.all(sends);
  });

  it('does not linger when a batch is full', async () => {
    const producer = await sluiceTo(replicas[0]!.url).producer({ id: newId(), linger: '1h', maxBatch: 5 });
    await Promise.all(range(5).map((n) => producer.send({ type: 't', payload: n })));
    const rest = producer.send({ type: 't', payload: 5 });
    await producer.flush();
    await rest;
  });

  it('reports what cannot be sent at all', async () => {
    const producer = await sluiceTo(replicas[0]!.url).producer({ id: newId() });
    await expect(producer.send({ type: 't', payload: undefined })).rejects.toThrow(TypeError);
    await expect(producer.send({ type: 't', payload: 1n })).rejects.toThrow(TypeError);
    await expect(producer.send({ payload: 1 })).rejects.toThrow('a topic or a type');
    const stranger = open({ url: replicas[0]!.url, apiKey: 'sk_wrong_0123456789abcdefghij' });
    await expect(stranger.producer({ id: 'x' })).rejects.toMatchObject({
      status: 401,
      type: 'urn:sluice:problems/unauthenticated',
    });
    await expect(open({ url: 'http://127.0.0.1:1' }).producer({ id: 'x', retries: 1 })).rejects.toMatchObject(
      {
        type: 'urn:sluice:client/unreachable',
        status: undefined,
      },
    );
    expect(() => open({ url: 'localhost:3000' })).toThrow(/http/);
    expect(() => open({ url: [] })).toThrow(TypeError);
  });
});

function newId(): string {
  run += 1;
  return `producer ${run} ö`;
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

function postsOf(proxy: FaultProxy) {
  return proxy.requests.filter(({ method }) => method === 'POST');
}

/** Also checks what the service knows of the producer. */
async function sequencesOf(id: string): Promise<number[]> {
  const rows = await database.query<{ sequence: string }>(
    'SELECT sequence FROM inbox WHERE producer = $1 ORDER BY sequence',
    [id],
  );
  const sequences = rows.map(({ sequence }) => Number(sequence));
  const path = `/v1/producers/${encodeURIComponent(id)}`;
  const { body } = await replicas[0]!.call('GET', path, { key: PRODUCE_KEY });
  expect(body).toEqual({ id, last: sequences.at(-1), missing: [] });
  return sequences;
}

async function payloadsOf(id: string): Promise<unknown[]> {
  const rows = await database.query<{ payload: unknown }>(
    'SELECT payload FROM inbox WHERE producer = $1 ORDER BY position',
    [id],
  );
  return rows.map(({ payload }) => payload);
}
