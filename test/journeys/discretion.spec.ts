import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type ApiResponse, type CallOptions } from '../support/app.ts';
import { sendRaw } from '../support/raw-http.ts';
import { type Receiver, type Responder, startReceiver } from '../support/receiver.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

/** Part of everything private or secret; no log line may contain it. */
const CANARY = 'canary7f3a';
const KEY = `sk_bird_${CANARY}${CANARY}`;
const READ = 'sk_reader_0123456789';

const { database, replica } = sharedReplica({
  API_KEYS: `bird=admin:${KEY},reader=read:${READ}`,
  LOG_LEVEL: 'trace',
  EGRESS_ALLOW: '127.0.0.0/8',
  DATA_DIRECTORY: mkdtempSync(join(tmpdir(), 'sluice-keys-')),
});

describe('the log at the level trace', () => {
  it('contains no key, payload, header, query or password, whatever goes wrong', async () => {
    const created = await call('POST', '/v1/api-keys', { body: { name: 'new', scopes: ['admin'] } });
    const secret = created.body.key.split('_').slice(2).join('_');
    await call('GET', '/v1/api-keys', { key: created.body.key });
    await call('GET', '/v1/api-keys', { key: `sk_bird_wrong${CANARY}` });
    await call('GET', '/v1/api-keys', { key: `sk_nobody_${CANARY}` });
    await call('GET', '/v1/api-keys', { key: null, headers: { authorization: `Basic ${CANARY}` } });
    await call('GET', `/v1/nothing/${CANARY}?token=${CANARY}`);
    await call('GET', `/v1/api-keys?cursor=${CANARY}&limit=${CANARY}`);
    await call('DELETE', `/v1/api-keys/${CANARY}%00`);
    await call('GET', '/livez', {
      headers: { cookie: CANARY, 'x-private': CANARY, 'x-request-id': `"${CANARY}"` },
    });
    await call('POST', '/v1/api-keys', { body: `{"name": "${CANARY}` });
    await call('POST', '/v1/api-keys', { body: { name: `${CANARY} !`, [CANARY]: CANARY } });
    await call('POST', '/v1/messages', { body: message() });
    await call('POST', '/v1/messages', { body: message() });
    await call('POST', '/v1/messages', { body: { ...message(), payload: { other: CANARY } } });
    await call('POST', '/v1/messages', { body: { ...message(), type: 7, unknown: CANARY } });
    await call('POST', '/v1/messages', { body: `{"type":"t","payload":"${CANARY}\\u0000"}` });
    await sendRaw(replica.url, `GET /${CANARY} HTTP/1.1\r\nhost: ${CANARY}\r\nbroken ${CANARY}\r\n\r\n`);
    await loseConnections();
    await whileTheTablesAreGone(async () => {
      // 503 as long as connections that were terminated are found in the pool.
      const post = () => call('POST', '/v1/messages', { body: { ...message(), id: 'failing' } });
      const failed = await until(async () => {
        const response = await post();
        return response.status === 503 ? undefined : response;
      });
      expect([failed!.status, failed!.body.type]).toEqual([500, 'urn:sluice:problems/internal']);
      expect((await call('GET', '/v1/api-keys')).status).toBe(500);
    });

    const log = replica.lines.join('');
    const password = decodeURIComponent(new URL(database.url).password);
    expect(log).toContain('"event":"http.internal"');
    expect(log).toContain('"event":"loop.failed"');
    expect(log).toContain('"event":"database.connection-lost"');
    for (const line of replica.lines) expect(line).not.toContain(CANARY);
    expect(log).not.toContain(secret);
    if (password) expect(log).not.toContain(password);
  });

  it('has a stable event in every line', () => {
    const events = replica.lines.map((line) => JSON.parse(line).event);
    expect(events.filter((event) => !/^[a-z]+\.[a-z][a-z0-9-]*$/.test(event))).toEqual([]);
  });
});

describe('path and query of a listener, which are often its secret', () => {
  const SECRET = 'secret-of-a-path-91b7';
  const PATH = `/hooks/${SECRET}?token=${SECRET}`;
  let receiver: Receiver;
  let messages: string[];

  /** Repeats the path of the request, as servers do. */
  const echoing: Responder = ({ path }, response, count) =>
    void response.writeHead(count % 2 ? 500 : 200).end(`Cannot POST ${path}`);

  beforeAll(async () => {
    receiver = await startReceiver(echoing);
    const origin = new URL(receiver.url).origin;
    const definition = { types: ['echo'], retrySchedule: ['10ms', '10ms'] };
    const listeners = { echo: `${origin}${PATH}`, nobody: `http://127.0.0.1:9999${PATH}` };
    for (const [name, url] of Object.entries(listeners))
      expect((await put(name, { ...definition, url })).status).toBe(201);
    messages = [];
    for (let n = 0; n < 3; n++)
      messages.push((await call('POST', '/v1/messages', { body: { type: 'echo', payload: n } })).body.id);
    await until(async () => (await stories()).every((text) => !text.includes('"pending"')));
  });
  afterAll(() => receiver.close());

  const put = (name: string, body: unknown) => call('PUT', `/v1/listeners/${name}`, { body });
  const stories = async () =>
    Promise.all(messages.map(async (id) => (await call('GET', `/v1/messages/${id}`, { key: READ })).text));

  it('reach the receiver', () => {
    expect(receiver.received.length).toBeGreaterThanOrEqual(3);
    for (const { path } of receiver.received) expect(path).toBe(PATH);
  });

  it('are in no response to a reader, though the receiver repeated them', async () => {
    const reported = await stories();
    expect(reported.join()).toContain('"excerpt":"Cannot POST …"');
    for (const path of [
      ...['listeners', 'listeners/echo', 'listeners/nobody', 'audit', 'holds', 'schedules', 'backlog'],
      ...['messages', 'dead-letters', 'dead-letters/groups', 'listeners/echo/deliveries'],
    ]) {
      const response = await call('GET', `/v1/${path}`, { key: READ });
      expect([path, response.status]).toEqual([path, 200]);
      reported.push(response.text);
    }
    reported.push((await call('GET', '/metrics')).text, (await call('GET', '/openapi.json')).text);
    expect(reported.filter((text) => text.includes(SECRET))).toEqual([]);
    expect((await call('GET', '/v1/listeners/echo')).body.url).toContain(PATH);
  });

  it.each([
    ['a name', `http://metadata.google.internal${PATH}`],
    ['a metadata service', `http://169.254.169.254${PATH}`],
    ['a file', `file://${PATH}`],
    ['credentials', `https://u:${SECRET}@example.com${PATH}`],
    ['no URL', `http://[${SECRET}${PATH}`],
    ['a long one', `https://1.1.1.1${PATH}${'x'.repeat(2_048)}`],
    ['a blocked port', `https://1.1.1.1:22${PATH}`],
  ])('are not repeated when it is refused for %s', async (_what, url) => {
    const response = await put('bad', { types: ['a'], url });
    expect(response.status).toBe(422);
    expect(response.text).not.toContain(SECRET);
  });

  it('are in no log line, through pings, changes and deletion', async () => {
    for (const name of ['echo', 'nobody']) {
      const pinged = await call('POST', `/v1/listeners/${name}/test`);
      expect([pinged.status, pinged.text.includes(SECRET)]).toEqual([200, false]);
      for (const action of ['pause', 'resume', 'rotate-secret'])
        expect((await call('POST', `/v1/listeners/${name}/${action}`)).status).toBe(200);
      expect((await call('DELETE', `/v1/listeners/${name}`)).status).toBe(204);
    }
    expect(replica.lines.join('')).toContain('"event":"outbox.');
    for (const line of replica.lines) expect(line).not.toContain(SECRET);
  });

  it('are in no table', async () => {
    const tables = await database.query<{ name: string }>(
      `SELECT format('%I', relname) AS name FROM pg_class
       WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
    );
    expect(tables.length).toBeGreaterThan(8);
    for (const { name } of tables) {
      const rows = await database.query<{ whole: string }>(`SELECT one::text AS whole FROM ${name} AS one`);
      expect([name, rows.filter(({ whole }) => whole.includes(SECRET))]).toEqual([name, []]);
    }
  });
});

function message() {
  return { type: 'urn:x:y', id: 'm-1', key: 'k-1', headers: { private: CANARY }, payload: { name: CANARY } };
}

function call(method: string, path: string, options: CallOptions = {}): Promise<ApiResponse> {
  return replica.call(method, path, { key: KEY, ...options });
}

async function loseConnections(): Promise<void> {
  await database.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'sluice engine' AND state = 'idle'`,
  );
  await until(() => replica.lines.some((line) => line.includes('database.connection-lost')));
}

/** Errors of statements, in requests and in loops, with all that statements contain. */
async function whileTheTablesAreGone(work: () => Promise<void>): Promise<void> {
  await database.query('ALTER TABLE inbox RENAME TO inbox_gone; ALTER TABLE api_key RENAME TO api_key_gone');
  try {
    await work();
    await until(() => replica.lines.some((line) => line.includes('loop.failed')));
  } finally {
    await database.query(
      'ALTER TABLE inbox_gone RENAME TO inbox; ALTER TABLE api_key_gone RENAME TO api_key',
    );
  }
}
