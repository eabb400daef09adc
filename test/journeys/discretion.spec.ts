import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Answer, type CallOptions, startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { sendRaw } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

/** Stands wherever something private or secret does; no line may contain it. */
const CANARY = 'canary7f3a';
const KEY = `sk_bird_${CANARY}${CANARY}`;

let database: TestDatabase;
let replica: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  replica = await startApp(database, { API_KEYS: `bird=admin:${KEY}`, LOG_LEVEL: 'trace' });
});
afterAll(async () => {
  await replica.close();
  await database.drop();
});

describe('the log of everything, at its most talkative', () => {
  it('has no key, payload, header, query or password in it, whatever goes wrong', async () => {
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
      const failed = await call('POST', '/v1/messages', { body: { ...message(), id: 'failing' } });
      expect([failed.status, failed.body.type]).toEqual([500, 'urn:sluice:problems/internal']);
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

function message() {
  return { type: 'urn:x:y', id: 'm-1', key: 'k-1', headers: { private: CANARY }, payload: { name: CANARY } };
}

function call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
  return replica.call(method, path, { key: KEY, ...options });
}

async function loseConnections(): Promise<void> {
  await database.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'sluice engine' AND state = 'idle'`,
  );
  await until(() => replica.lines.some((line) => line.includes('database.connection-lost')));
}

/** Faults of statements, in requests and in loops, with all that statements carry. */
async function whileTheTablesAreGone(work: () => Promise<void>): Promise<void> {
  await database.query('ALTER TABLE inbox RENAME TO inbox_gone; ALTER TABLE api_key RENAME TO api_key_gone');
  await work();
  await until(() => replica.lines.some((line) => line.includes('loop.failed')));
  await database.query('ALTER TABLE inbox_gone RENAME TO inbox; ALTER TABLE api_key_gone RENAME TO api_key');
}
