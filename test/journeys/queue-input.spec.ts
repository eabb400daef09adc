import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { PRODUCE_KEY, READ_KEY } from '../support/app.ts';
import { TestConsumer } from '../support/consumer.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { TestQueue } from '../support/test-queue.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open();
});
afterEach(() => cluster.clear());
afterAll(() => cluster.close());

const queue = (name: string, definition?: Record<string, unknown>) =>
  TestQueue.open(cluster, name, definition);
const LEASE = '1.1.1.00000000-0000-4000-8000-000000000000';
const put = (name: string, body: Record<string, unknown>) =>
  cluster.call('PUT', `/v1/listeners/${name}`, body);
const many = (count: number) =>
  Array.from({ length: count }, (_, n) => `${LEASE.slice(0, -6)}${100_000 + n}`);

describe('what a consumer sends is refused with the place of each fault', () => {
  it.each<[string, unknown, string, RegExp]>([
    ['no messages', { max: 0 }, '/max', /whole number from 1 to 500/],
    ['far too many', { max: 1e9 }, '/max', /1 to 500/],
    ['half a message', { max: 1.5 }, '/max', /whole number/],
    ['less than none', { max: -1 }, '/max', /1 to 500/],
    ['a text', { max: '50' }, '/max', /whole number/],
    ['null', { max: null }, '/max', /whole number/],
    ['no bytes', { maxBytes: 0 }, '/maxBytes', /1 to 16777216/],
    ['more bytes than fit', { maxBytes: 16 * 1024 * 1024 + 1 }, '/maxBytes', /1 to 16777216/],
    ['a wait of an hour', { wait: '1h' }, '/wait', /to 50s/],
    ['a wait without a unit', { wait: 20 }, '/wait', /duration/],
    ['an unknown field', { maximum: 5 }, '/maximum', /not a known field/],
  ])('a pull of %s', async (_, body, pointer, detail) => {
    const strict = await queue('strict');
    const response = await strict.consumer.call('pull', body);
    expect([response.status, response.body.type]).toEqual([422, 'urn:sluice:problems/invalid']);
    expect(response.body.errors).toEqual([{ pointer, detail: expect.stringMatching(detail) }]);
  });

  it.each<[string, unknown, string, RegExp]>([
    ['nothing at all', {}, '', /must have a lease/],
    ['four empty lists', { acknowledge: [], retry: [], reject: [], extend: [] }, '', /must have a lease/],
    ['no list', { acknowledge: LEASE }, '/acknowledge', /list of at most 1000/],
    ['ten thousand leases', { acknowledge: many(10_000) }, '', /more than 1000 leases/],
    [
      'too many over all lists',
      { acknowledge: many(1_000), extend: [{ lease: LEASE }] },
      '',
      /more than 1000 leases/,
    ],
    ['a number', { acknowledge: [5] }, '/acknowledge/0', /must be a lease/],
    ['an empty text', { acknowledge: [''] }, '/acknowledge/0', /must be a lease/],
    [
      'the same lease twice',
      { acknowledge: [LEASE, LEASE] },
      '/acknowledge/1',
      /same lease as \/acknowledge\/0/,
    ],
    [
      'the same lease in two lists',
      { acknowledge: [LEASE], extend: [{ lease: LEASE }] },
      '/extend/0/lease',
      /same lease as \/acknowledge\/0/,
    ],
    ['a retry that is a text', { retry: [LEASE] }, '/retry/0', /object with a lease/],
    ['a retry in a year', { retry: [{ lease: LEASE, after: '365d' }] }, '/retry/0/after', /to 30d/],
    [
      'a retry with a typo',
      { retry: [{ lease: LEASE, aftr: '1s' }] },
      '/retry/0/aftr',
      /did you mean "after"/,
    ],
    ['a rejection without a reason', { reject: [{ lease: LEASE }] }, '/reject/0/reason', /1 to 500/],
    [
      'too long a reason',
      { reject: [{ lease: LEASE, reason: 'x'.repeat(501) }] },
      '/reject/0/reason',
      /1 to 500/,
    ],
    ['an extension by nothing', { extend: [{ lease: LEASE, by: '0s' }] }, '/extend/0/by', /from 1s to 12h/],
    ['an unknown list', { acknowledge: [LEASE], forget: [] }, '/forget', /not a known field/],
  ])('an acknowledgement of %s', async (_, body, pointer, detail) => {
    const strict = await queue('strict');
    const response = await strict.consumer.call('acknowledge', body);
    expect([response.status, response.body.type]).toEqual([422, 'urn:sluice:problems/invalid']);
    expect(response.body.errors).toEqual([{ pointer, detail: expect.stringMatching(detail) }]);
  });

  it('and changes nothing', async () => {
    const kept = await queue('kept');
    await kept.post('a');
    const [message] = await kept.consumer.pull();
    const lease = message!.lease;
    const response = await kept.consumer.call('acknowledge', { acknowledge: [lease], extend: [{ lease }] });
    expect(response.status).toBe(422);
    expect(await kept.consumer.acknowledge(message!)).toEqual(['done']);
  });

  it('an empty body pulls with the defaults, and acknowledges nothing', async () => {
    const empty = await queue('empty');
    await empty.post('a');
    expect((await empty.consumer.call('pull')).body.messages).toHaveLength(1);
    const response = await empty.consumer.call('acknowledge');
    expect([response.status, response.body.type]).toEqual([400, 'urn:sluice:problems/malformed-json']);
  });
});

describe('who may pull what', () => {
  it('needs the scope consume, and a listener that is pulled', async () => {
    const scoped = await queue('scoped');
    await cluster.listen('called');
    for (const what of ['pull', 'acknowledge'])
      for (const key of [PRODUCE_KEY, READ_KEY]) {
        const path = `/v1/listeners/scoped/${what}`;
        expect((await cluster.replica.call('POST', path, { body: {}, key })).status).toBe(403);
      }
    const [webhook, nobody] = ['called', 'nobody'].map((name) => new TestConsumer(cluster.replica, name));
    const acknowledge = { acknowledge: [LEASE] };
    for (const response of [await webhook!.call('pull'), await webhook!.call('acknowledge', acknowledge)])
      expect([response.status, response.body.detail]).toEqual([409, expect.stringContaining('webhooks')]);
    for (const response of [await nobody!.call('pull'), await nobody!.call('acknowledge', acknowledge)])
      expect(response.status).toBe(404);
    expect(await scoped.consumer.pull()).toEqual([]);
  });

  it('what only webhooks have is refused', async () => {
    const pulled = await queue('pulled');
    for (const route of ['test', 'rotate-secret']) {
      const response = await pulled.call('POST', `/${route}`);
      expect([response.status, response.body.detail]).toEqual([409, expect.stringContaining('"pull"')]);
    }
  });
});

describe('the definition of a queue', () => {
  it('is shown with its defaults, without a URL or a secret', async () => {
    const created = await put('shown', { mode: 'pull', types: ['shown/*'], attempts: 3 });
    expect(created.status).toBe(201);
    expect(created.body).toEqual({
      name: 'shown',
      mode: 'pull',
      types: ['shown/*'],
      ordered: true,
      lease: '30s',
      attempts: 3,
      maxInFlight: 2_000,
      retrySchedule: expect.any(Array),
      onDead: 'skip',
      lanes: 16,
      rateLimit: null,
      state: 'active',
      stateReason: null,
      stateSince: expect.any(String),
      stateBy: 'admin',
      health: {
        circuit: 'closed',
        closedUntil: null,
        reason: null,
        rate: { perSecond: null, limitedUntil: null },
      },
      origin: 'api',
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
    });
    expect((await put('shown', { mode: 'pull', types: ['shown/*'], lease: '12h' })).status).toBe(200);
    expect((await cluster.call('GET', '/v1/listeners/shown')).body).toMatchObject({
      lease: '12h',
      attempts: 10,
    });
  });

  it.each<[string, Record<string, unknown>, string, RegExp]>([
    ['a URL', { url: 'https://1.1.1.1/' }, '/url', /only for the mode "webhook"/],
    ['a timeout', { timeout: '5s' }, '/timeout', /only for the mode "webhook"/],
    ['final statuses', { terminalStatuses: [400] }, '/terminalStatuses', /only for the mode "webhook"/],
    ['too short a lease', { lease: '500ms' }, '/lease', /from 1s to 12h/],
    ['too long a lease', { lease: '13h' }, '/lease', /from 1s to 12h/],
    ['no attempt', { attempts: 0 }, '/attempts', /1 to 1000/],
    ['nothing in flight', { maxInFlight: 0 }, '/maxInFlight', /1 to 20000/],
    ['a mode that does not exist', { mode: 'push' }, '/mode', /must be "webhook", "pull"/],
  ])('must not have %s', async (_, change, pointer, detail) => {
    const response = await put('refused', { mode: 'pull', types: ['x'], ...change });
    expect(response.status).toBe(422);
    expect(response.body.errors).toContainEqual({ pointer, detail: expect.stringMatching(detail) });
  });

  it('of a webhook must not have what is for queues', async () => {
    const response = await put('refused', { types: ['x'], url: 'https://1.1.1.1/', lease: '30s' });
    expect(response.body.errors).toEqual([{ pointer: '/lease', detail: 'is only for the mode "pull"' }]);
  });

  it('becomes a webhook and back when nothing is pending, and not before', async () => {
    const turned = await queue('turned');
    await turned.post('a');
    const receiver = await cluster.listen('receiver');
    const webhook = { types: ['turned/*'], url: receiver.url };
    const early = await put('turned', webhook);
    expect([early.status, early.body.errors]).toEqual([
      409,
      [{ pointer: '/mode', detail: 'must be "pull"' }],
    ]);
    await turned.consumer.acknowledge(...(await turned.consumer.pull()));
    const called = await put('turned', webhook);
    expect([called.status, called.body.secret]).toEqual([200, expect.stringMatching(/^whsec_/)]);
    await cluster.post({ type: 'turned/x', key: 'b' });
    await until(() => receiver.received.length === 1);
    await until(async () => (await cluster.counts('turned')).finished === 2);
    const back = await put('turned', { mode: 'pull', types: ['turned/*'] });
    expect([back.status, back.body.secret]).toEqual([200, undefined]);
    await turned.post('c');
    expect(await turned.consumer.pull()).toEqual([expect.objectContaining({ key: 'c' })]);
    expect(receiver.received).toHaveLength(1);
  });

  it('can come from the listeners file, without a key to encrypt secrets with', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'sluice-queue-')), 'listeners.yaml');
    const entry = '  - name: filed\n    mode: pull\n    types: [filed/*]\n    lease: 45s\n';
    writeFileSync(file, `listeners:\n${entry}`);
    const replica = await cluster.start({ LISTENERS_FILE: file, SECRETS_KEYS: '' });
    expect((await replica.call('GET', '/v1/listeners/filed')).body).toMatchObject({
      mode: 'pull',
      lease: '45s',
    });
    await cluster.post({ type: 'filed/x', key: 'a' });
    expect(await new TestConsumer(replica, 'filed').pull({ wait: '20s' })).toHaveLength(1);
    await cluster.stop(replica);
    writeFileSync(file, `listeners:\n${entry}    secret: whsec_${Buffer.alloc(32).toString('base64')}\n`);
    await expect(cluster.start({ LISTENERS_FILE: file })).rejects.toThrow('is only for the mode "webhook"');
    writeFileSync(file, 'listeners:\n  - name: filed\n    types: [filed/*]\n    url: https://1.1.1.1/\n');
    await expect(cluster.start({ LISTENERS_FILE: file })).rejects.toThrow(
      'messages pending in the mode "pull"',
    );
    writeFileSync(file, 'listeners: []\n');
    await cluster.stop(await cluster.start({ LISTENERS_FILE: file }));
  });
});
