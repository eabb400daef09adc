import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type BuiltService, build, run } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { readManifests } from '../support/manifests.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;
const BATCH = '/v1/messages/batch';
const IMPORT = '/v1/history/import';
const EVENTS = { 'content-type': 'application/cloudevents-batch+json' };
const TOKEN = 'sk_a_12345678';
const AS_ADMIN = { authorization: `Bearer ${TOKEN}` };

let database: TestDatabase;
let service: BuiltService;
let url: string;

beforeAll(async () => {
  build();
  database = await createDatabase();
  const flags = [`--max-old-space-size=${heapOfAPod()}`, '--max-semi-space-size=64'];
  const settings = {
    DATABASE_URL: database.url,
    ROLES: 'api,inbox',
    MIGRATIONS: 'auto',
    HOST: '127.0.0.1',
    HISTORY: 'kept=forever',
    API_KEYS: `admin=admin+produce+consume+read:${TOKEN}`,
  };
  service = run(settings, { flags });
  url = await service.url();
});
afterAll(async () => {
  service.child.kill('SIGTERM');
  await service.exit();
  await database.drop();
});

const zeros = (bytes: number) => `[${'0,'.repeat(bytes / 2 - 40)}0]`;
const members = (bytes: number) => {
  const count = Math.floor(bytes / 13) - 10;
  return Array.from({ length: count }, (_, n) => `"k${String(n).padStart(7, '0')}":0`).join();
};
const fields = Array.from({ length: 100 }, (_, n) => `"f${n}":${'1'.repeat(100)}`).join();

describe('a replica with the memory of deploy/kubernetes', () => {
  it.each<[what: string, status: number, pointer: string, body: () => string]>([
    ['16 MiB of items that are no messages', 422, '/messages', () => `{"messages":${zeros(16 * MIB)}}`],
    ['16 MiB of fields of one message', 422, '/messages/0', () => `{"messages":[{${members(16 * MIB)}}]}`],
    ['16 MiB of fields beside the messages', 422, '', () => `{${members(16 * MIB)}}`],
    [
      'a payload of 16 MiB of keys',
      422,
      '',
      () => `{"messages":[{"type":"t","payload":{${members(16 * MIB)}}}]}`,
    ],
    [
      'a payload of 16 MiB of values',
      422,
      '',
      () => `{"messages":[{"type":"t","payload":${zeros(16 * MIB)}}]}`,
    ],
    [
      '16 MiB of numbers that take long to check',
      422,
      '',
      () => `{"messages":[{"type":"t","payload":[${'1e5,'.repeat(4 * MIB - 20)}1]}]}`,
    ],
    [
      '1,000 messages of 100 unknown fields',
      422,
      '/messages/0/f0',
      () => `{"messages":[${Array(1_000).fill(`{${fields}}`)}]}`,
    ],
    ['more than 16 MiB', 413, '', () => `{"messages":${zeros(16 * MIB + 200)}}`],
  ])('refuses %s with %d and continues', async (_what, status, pointer, body) => {
    await expectRefusal(status, pointer, body());
  });

  it('refuses a list of invalid events, of the size of one message', async () => {
    await expectRefusal(422, '', zeros(MIB), '/v1/messages', EVENTS);
  });

  it('refuses a body that is not for messages and has too many values', async () => {
    await expectRefusal(422, '', `{"mode":${zeros(MIB - 100)}}`, '/v1/listeners/x', {}, 'PUT');
  });

  it.each(['\n', '\r\n'])('imports nothing of 16 MiB of blank lines and continues: %j', async (end) => {
    const lines = { 'content-type': 'application/x-ndjson' };
    const { status, text } = await call('POST', IMPORT, end.repeat((16 * MIB) / end.length), lines);
    expect([status, JSON.parse(text)]).toEqual([200, { imported: 0, duplicates: 0 }]);
    await expectServed();
  });

  it('refuses six of the largest at a time, and serves other requests', async () => {
    const body = `{"messages":${zeros(16 * MIB)}}`;
    const responses = await Promise.all(Array.from({ length: 6 }, () => call('POST', BATCH, body)));
    for (const { status } of responses) expect([422, 503]).toContain(status);
    await expectServed();
  });

  it('serves other consumers beside forty that poll 16 MiB each and do not read', async () => {
    await send('PUT', '/v1/topics/large', { types: ['large'], partitions: 1 });
    const large = { type: 'large', payload: 'x'.repeat(900_000) };
    for (let n = 0; n < 20; n++) await send('POST', '/v1/messages', { ...large, key: `k-${n}` });
    await until(async () => {
      const [tail] = await database.query<{ next: number }>('SELECT next::int FROM topic_partition');
      return tail!.next === 20;
    });
    const polls = [];
    for (let n = 0; n <= 40; n++) {
      await send('PUT', `/v1/groups/g-${n}`, { topics: ['large'], start: 'earliest' });
      const { member } = await send('POST', `/v1/groups/g-${n}/members`, {});
      polls.push({ path: `/v1/groups/g-${n}/poll`, body: { member, maxBytes: 16 * MIB, wait: '5s' } });
    }
    const { path, body } = polls.pop()!;
    const silent = await Promise.all(polls.map((poll) => requestWithoutReading(poll.path, poll.body)));
    await until(async () => (await call('POST', path, JSON.stringify(body))).status === 200);
    await expectServed();
    for (const socket of silent) socket.destroy();
  });

  it('exports history and finds messages in it, forty times at once', async () => {
    const payload = 'x'.repeat(900_000);
    const line = (n: number) => JSON.stringify({ id: `kept-${n}`, type: 'kept', key: `k-${n}`, payload });
    for (let n = 0; n < 45; n += 15) {
      const lines = Array.from({ length: 15 }, (_, index) => line(n + index)).join('\n');
      const { text } = await call('POST', IMPORT, lines, { 'content-type': 'application/x-ndjson' });
      expect(JSON.parse(text)).toEqual({ imported: 15, duplicates: 0 });
    }
    for (const path of ['/v1/history/messages?limit=10000', '/v1/messages/kept-7', '/v1/find?q=kept-7']) {
      const sizes = Array.from({ length: 40 }, () => sizeOf(path));
      expect(Math.max(...(await Promise.all(sizes)))).toBeGreaterThan(0);
      await expectServed();
    }
  });

  it('lists forty groups of 12,800 partitions each, three times at once', async () => {
    const topics = Array.from({ length: 50 }, (_, n) => `wide-${n}`);
    for (const topic of topics) await send('PUT', `/v1/topics/${topic}`, { partitions: 256 });
    for (let n = 0; n < 40; n++) await send('PUT', `/v1/groups/wide-${n}`, { topics: ['wide-0'] });
    await database.query(`
      INSERT INTO group_cursor (group_number, topic, partition, start, committed, handed)
      SELECT consumer_group.number, tail.topic, tail.partition, 0, -1, -1
      FROM consumer_group CROSS JOIN topic_partition AS tail JOIN topic ON topic.number = tail.topic
      WHERE consumer_group.name LIKE 'wide-%' AND topic.name LIKE 'wide-%' ON CONFLICT DO NOTHING`);
    const calls = Array.from({ length: 3 }, () => call('GET', '/v1/groups?limit=500'));
    expect([...new Set((await Promise.all(calls)).map(({ status }) => status))]).toEqual([200]);
    await expectServed();
  });

  it.each(['/v1/messages/shared', '/v1/dead-letters/shared'])(
    'finds one of twenty messages of 1 MiB with the same id, forty times at once: %s',
    async (path) => {
      await database.query(
        `INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at, error)
         SELECT 'shared', 'source-' || n, 't', 'shared', 0, to_json(repeat(n::text, $1)), 'dead', now(), now(), 'failed'
         FROM generate_series(10, 29) AS n ON CONFLICT DO NOTHING`,
        [MIB / 2],
      );
      const statuses = async (query: string) => {
        const calls = Array.from({ length: 40 }, () => call('GET', path + query));
        return new Set((await Promise.all(calls)).map(({ status }) => status));
      };
      expect([...(await statuses(''))]).toEqual([409]);
      const { status, text } = await call('GET', `${path}?source=source-29`);
      expect([status, text.includes('"payload":"2929')]).toEqual([200, true]);
      await expectServed();
    },
  );

  it.each<[what: string, key: string, path: string, headers: string]>([
    ['an unknown key and 1,000 short headers', 'sk_x_12345678', '/v1/messages', headers(1_000, 13)],
    ['an unknown key and 16 KiB of headers', 'sk_x_12345678', '/v1/messages', headers(120, 130)],
    ['a wait of 30 s and 16 KiB of headers', TOKEN, '/v1/candidates?after=later&wait=30s', headers(120, 130)],
  ])(
    'accepts messages beside ten clients that pipeline requests with %s',
    async (_what, key, path, fields) => {
      const request = `GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n${fields}\r\n`;
      await send('POST', '/v1/messages', {
        id: 'later',
        type: 't',
        payload: 1,
        dueAt: '2100-01-01T00:00:00Z',
      });
      const flood = Array.from({ length: 10 }, () => pipeline(request, 900));
      await expectServed();
      await Promise.all(flood.map(({ sent }) => sent));
      await expectServed();
      for (const { socket } of flood) socket.destroy();
    },
  );
});

/** N header fields of M bytes each. */
function headers(count: number, bytes: number): string {
  return Array.from({ length: count }, (_, n) => `${`f${n}:`.padEnd(bytes, 'v')}\r\n`).join('');
}

/** Sends all of them without waiting for a response; does not mind that the service closes the connection. */
function pipeline(request: string, count: number) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  socket.resume();
  const sent = new Promise<void>((resolve) => {
    socket.on('close', () => resolve());
    socket.write(request.repeat(count), () => resolve());
  });
  return { socket, sent };
}

/** Bytes of the response; 0 if it is refused for now. Not kept: the test has not much more memory. */
async function sizeOf(path: string): Promise<number> {
  const response = await fetch(url + path, { headers: AS_ADMIN });
  let bytes = 0;
  for await (const chunk of response.body!) bytes += chunk.length;
  expect([200, 503]).toContain(response.status);
  return response.status === 200 ? bytes : 0;
}

async function send(method: string, path: string, body: object) {
  const { status, text } = await call(method, path, JSON.stringify(body));
  expect([path, [200, 201, 202].includes(status)]).toEqual([path, true]);
  return JSON.parse(text);
}

async function requestWithoutReading(path: string, content: object): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).pause();
  await once(socket, 'connect');
  const body = JSON.stringify(content);
  const head = `POST ${path} HTTP/1.1\r\nhost: localhost:${port}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`;
  socket.write(`${head}\r\nauthorization: ${AS_ADMIN.authorization}\r\n\r\n${body}`);
  return socket;
}

async function expectRefusal(
  status: number,
  pointer: string,
  body: string,
  path = BATCH,
  headers: Record<string, string> = {},
  method = 'POST',
): Promise<void> {
  const response = await call(method, path, body, headers);
  const { errors } = JSON.parse(response.text) as { errors?: { pointer: string }[] };
  expect([response.status, errors?.[0]?.pointer ?? '']).toEqual([status, pointer]);
  await expectServed();
}

async function expectServed(): Promise<void> {
  const { status } = await call('POST', '/v1/messages', '{"type":"t","payload":1}');
  expect([status, service.child.exitCode, service.errors()]).toEqual([202, null, '']);
}

async function call(method: string, path: string, body?: string, headers: Record<string, string> = {}) {
  const response = await fetch(url + path, {
    method,
    headers: { ...AS_ADMIN, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body }),
  });
  return { status: response.status, text: await response.text() };
}

/** Node uses half of the container's memory for its heap; in MiB. */
function heapOfAPod(): number {
  const api = readManifests().find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'sluice-api',
  );
  const limit: string = api!.spec.template.spec.containers[0].resources.limits.memory;
  return Number(/^(\d+)Mi$/.exec(limit)![1]) / 2;
}
