import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { isScope } from '../../src/http/access.ts';
import type { Route } from '../../src/http/routes.ts';
import { ADMIN_KEY, type ApiResponse, READ_KEY, startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

const SECRETS = { SECRETS_KEYS: `new=${Buffer.alloc(32, 1).toString('base64')}` };
const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' };
const HTTPS = { 'x-forwarded-proto': 'https' };

/** What others than admins may change: what producers and consumers do, and the session itself. */
const BY_OTHERS: Readonly<Record<string, string>> = {
  'POST /v1/messages': 'produce',
  'POST /v1/messages/batch': 'produce',
  'POST /v1/topics/:topic/messages': 'produce',
  'POST /v1/topics/:topic/messages/batch': 'produce',
  'POST /v1/listeners/:name/pull': 'consume',
  'POST /v1/listeners/:name/acknowledge': 'consume',
  'POST /v1/groups/:group/members': 'consume',
  'DELETE /v1/groups/:group/members/:member': 'consume',
  'POST /v1/groups/:group/poll': 'consume',
  'POST /v1/groups/:group/commit': 'consume',
  'POST /v1/session': 'console',
  'DELETE /v1/session': 'console',
};

function isOpenToOthers({ method, url, access }: Route): boolean {
  const isSafe = method === 'GET' || method === 'HEAD';
  return !isSafe && access !== 'admin' && BY_OTHERS[`${method} ${url}`] !== access;
}

let database: TestDatabase;
let one: TestApp;
let other: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  one = await startApp(database, { ...SECRETS, ROLES: 'api', ENVIRONMENT: 'staging' });
  other = await startApp(database, { ...SECRETS, ROLES: 'api' });
});
afterAll(async () => {
  await Promise.all([one.close(), other.close()]);
  await database.drop();
});

function signIn(key: string, headers: Record<string, string> = {}, replica = one): Promise<ApiResponse> {
  return replica.call('POST', '/v1/session', { key: null, body: { key }, headers });
}

async function cookieOf(key: string, replica = one): Promise<string> {
  return (await signIn(key, {}, replica)).headers.get('set-cookie')!.split(';')[0]!;
}

function callWith(cookie: string, method: string, path: string, headers = {}, replica = one, body?: unknown) {
  return replica.call(method, path, { key: null, headers: { cookie, ...headers }, body });
}

describe('a session', () => {
  it('stands for its API key, with the scopes of that key', async () => {
    const started = await signIn(READ_KEY);
    expect(started.status).toBe(200);
    expect(started.body).toEqual({
      name: 'read',
      scopes: ['read'],
      open: false,
      environment: 'staging',
      version: expect.stringMatching(/^\d/),
      expiresAt: expect.stringMatching(/Z$/),
    });
    const hours = (Date.parse(started.body.expiresAt) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(11.9);
    expect(hours).toBeLessThanOrEqual(12);

    const cookie = await cookieOf(READ_KEY);
    const session = await callWith(cookie, 'GET', '/v1/session');
    expect({ ...session.body, expiresAt: '' }).toEqual({ ...started.body, expiresAt: '' });
    expect((await callWith(cookie, 'GET', '/v1/messages')).status).toBe(200);
  });

  it('is kept by the browser for this host alone, out of reach of scripts and of other sites', async () => {
    const cookie = (await signIn(READ_KEY)).headers.get('set-cookie');
    expect(cookie).toMatch(
      /^sluice_session_[0-9a-f]{8}=read\.\d+\.[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    const secure = (await signIn(READ_KEY, HTTPS)).headers.get('set-cookie');
    expect(secure).toMatch(/^__Host-sluice_session_[0-9a-f]{8}=read\.[^;]+; Path=\/; HttpOnly; .*; Secure$/);
    const [name] = secure!.split(';');
    expect((await callWith(name!, 'GET', '/v1/session', HTTPS)).status).toBe(200);
    // Under TLS a cookie without the prefix may have been set by anyone.
    expect((await callWith(cookie!.split(';')[0]!, 'GET', '/v1/session', HTTPS)).status).toBe(401);
  });

  it('is valid on every replica that has the same SECRETS_KEYS, also while they are rotated', async () => {
    const cookie = await cookieOf(ADMIN_KEY);
    expect((await callWith(cookie, 'GET', '/v1/session', {}, other)).body).toMatchObject({
      name: 'admin',
      environment: null,
    });

    const rotated = `newer=${Buffer.alloc(32, 2).toString('base64')},${SECRETS.SECRETS_KEYS}`;
    const third = await startApp(database, { SECRETS_KEYS: rotated, ROLES: 'api' });
    const stranger = await startApp(database, { SECRETS_KEYS: rotated.split(',')[0]!, ROLES: 'api' });
    try {
      expect((await callWith(cookie, 'GET', '/v1/session', {}, third)).status).toBe(200);
      expect((await callWith(cookie, 'GET', '/v1/session', {}, stranger)).status).toBe(401);
    } finally {
      await Promise.all([third.close(), stranger.close()]);
    }
  });

  it('works without SECRETS_KEYS on the replica that started it', async () => {
    const DATA_DIRECTORY = mkdtempSync(join(tmpdir(), 'sluice-session-'));
    const alone = await startApp(database, { ROLES: 'api', DATA_DIRECTORY });
    try {
      const cookie = await cookieOf(READ_KEY, alone);
      expect((await callWith(cookie, 'GET', '/v1/session', {}, alone)).status).toBe(200);
      expect((await callWith(cookie, 'GET', '/v1/session', {}, one)).status).toBe(401);
      // A key that is generated later, with the first secret of a listener, ends no session.
      const listener = { types: ['x'], url: 'https://example.com/' };
      expect((await alone.call('PUT', '/v1/listeners/l', { body: listener })).status).toBe(201);
      expect((await callWith(cookie, 'GET', '/v1/session', {}, alone)).status).toBe(200);
      const sharing = await startApp(database, { ROLES: 'api', DATA_DIRECTORY });
      const next = await cookieOf(READ_KEY, alone);
      expect((await callWith(next, 'GET', '/v1/session', {}, sharing)).status).toBe(200);
      await sharing.close();
    } finally {
      await alone.close();
    }
  });

  it('ends within 5 s on every replica when its API key is revoked', async () => {
    const created = await one.call('POST', '/v1/api-keys', { body: { name: 'leaver', scopes: ['read'] } });
    const cookie = await cookieOf(created.body.key);
    expect((await callWith(cookie, 'GET', '/v1/messages', {}, other)).status).toBe(200);
    const revokedAt = Date.now();
    await one.call('DELETE', `/v1/api-keys/${created.body.id}`);
    expect((await callWith(cookie, 'GET', '/v1/messages')).status).toBe(401);
    while ((await callWith(cookie, 'GET', '/v1/messages', {}, other)).status !== 401)
      expect(Date.now() - revokedAt).toBeLessThan(5_000);
  });

  it('ends when its API key gets another secret, and never with a forged or an old cookie', async () => {
    const created = await one.call('POST', '/v1/api-keys', { body: { name: 'changed', scopes: ['read'] } });
    const cookie = await cookieOf(created.body.key);
    const [, id, expiry, signature] = /=(\w+)\.(\d+)\.(.+)$/.exec(cookie)!;
    const forged = [
      `admin.${expiry}.${signature}`,
      `${id}.${Number(expiry) + 60}.${signature}`,
      `${id}.${expiry}.${'A'.repeat(43)}`,
      `${id}.${expiry}.`,
      `${id}.0.${signature}`,
      'x',
      '',
    ];
    for (const value of forged) {
      const response = await callWith(`sluice_session=${value}`, 'GET', '/v1/messages');
      expect([value, response.status]).toEqual([value, 401]);
    }
    await database.query('UPDATE api_key SET secret_hash = sha256($1) WHERE id = $2', ['another', id]);
    const changedAt = Date.now();
    while ((await callWith(cookie, 'GET', '/v1/messages')).status !== 401)
      expect(Date.now() - changedAt).toBeLessThan(5_000);
  });

  it('is refused to other sites wherever a request can change something', async () => {
    const cookie = await cookieOf(ADMIN_KEY);
    const { host } = new URL(one.url);
    const put = async (headers: Record<string, string>) =>
      (await callWith(cookie, 'PUT', '/v1/keys/k/hold', headers, one, { reason: 'x' })).status;
    const foreign: Record<string, string>[] = [
      {},
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': 'cross-site', origin: `http://${host}` },
      { origin: 'https://stranger.example' },
      { origin: 'null' },
      { origin: `http://${host}.stranger.example` },
    ];
    for (const headers of foreign) expect([headers, await put(headers)]).toEqual([headers, 403]);
    expect((await one.call('GET', '/v1/holds')).body.items).toEqual([]);
    const refused = await callWith(cookie, 'DELETE', '/v1/keys/k/hold', { 'sec-fetch-site': 'cross-site' });
    expect(refused.body.type).toBe('urn:sluice:problems/cross-origin');

    expect(await put(SAME_ORIGIN)).toBe(200);
    expect(await put({ origin: `http://${host}` })).toBe(200);
    // Reading needs no proof: no other site can read the response.
    const read = await callWith(cookie, 'GET', '/v1/holds', { 'sec-fetch-site': 'cross-site' });
    expect(read.body.items).toHaveLength(1);
  });

  it('does not change how an API key in the header works, whatever cookie is sent with it', async () => {
    const headers = { cookie: await cookieOf(READ_KEY) };
    const body = { reason: 'x' };
    expect((await one.call('PUT', '/v1/keys/k/hold', { headers, body })).status).toBe(200);
    const wrong = await one.call('GET', '/v1/messages', { headers, key: 'sk_nobody_0123456789' });
    expect(wrong.status).toBe(401);
  });

  it('is not what protects people behind a proxy that adds an API key: pages of other sites are refused with it, too', async () => {
    const { host } = new URL(one.url);
    const put = async (headers: Record<string, string>) => {
      const { status, body } = await one.call('PUT', '/v1/keys/k/hold', { headers, body: { reason: 'x' } });
      return status === 403 ? body.type : status;
    };
    const refused: Record<string, string>[] = [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'cross-site', origin: `http://${host}` },
      // Browsers without that header, and all of them where the proxy is reached without TLS.
      { origin: 'https://stranger.example' },
      { origin: 'null' },
    ];
    for (const headers of refused)
      expect([headers, await put(headers)]).toEqual([headers, 'urn:sluice:problems/cross-origin']);
    const accepted: Record<string, string>[] = [
      {},
      SAME_ORIGIN,
      { 'sec-fetch-site': 'none' },
      { origin: `http://${host}` },
    ];
    for (const headers of accepted) expect([headers, await put(headers)]).toEqual([headers, 200]);
    // A link in a mail leads to the console: reading is not refused.
    const read = await one.call('GET', '/v1/holds', { headers: { 'sec-fetch-site': 'cross-site' } });
    expect(read.status).toBe(200);
    const unknown = await one.call('PUT', '/v1/keys/k/hold', {
      headers: { 'sec-fetch-site': 'cross-site' },
      key: 'sk_nobody_0123456789',
      body: { reason: 'x' },
    });
    expect(unknown.status).toBe(401);
  });

  it('of a read key gets a 403 on every admin route', async () => {
    const cookie = await cookieOf(READ_KEY);
    const admin = one.app.routes.filter(({ access }) => access === 'admin');
    expect(admin.length).toBeGreaterThan(20);
    for (const { method, url } of admin) {
      const path = url.replace(/:[A-Za-z]+/g, 'x');
      const { status } = await callWith(cookie, method, path, SAME_ORIGIN);
      expect([method, url, status]).toEqual([method, url, 403]);
    }
    // A guard against a route that forgets to declare its scope, and against one that declares a wrong one.
    expect(one.app.routes.filter(isOpenToOthers)).toEqual([]);
    const planted = ['PUT', 'POST', 'PATCH', 'DELETE'].flatMap((method): Route[] => [
      { method, url: '/v1/listeners/:name/planted', access: 'read' },
      { method, url: '/v1/keys/:key/hold', access: 'produce' },
    ]);
    expect(planted.filter(isOpenToOthers)).toEqual(planted);
    const open = one.app.routes.filter(({ access, url }) => !isScope(access) && url.startsWith('/v1/'));
    expect(new Set(open.map(({ url }) => url))).toEqual(new Set(['/v1/session']));
  });

  it('cannot be started with an unknown key, nor by another site', async () => {
    const unknown = await signIn('sk_nobody_0123456789');
    expect(unknown.status).toBe(401);
    expect(unknown.headers.get('set-cookie')).toBeNull();
    const elsewhere = await signIn(ADMIN_KEY, { 'sec-fetch-site': 'cross-site' });
    expect([elsewhere.status, elsewhere.headers.get('set-cookie')]).toEqual([403, null]);
    const extra = await one.call('POST', '/v1/session', { key: null, body: { key: ADMIN_KEY, keep: true } });
    expect(extra.status).toBe(422);
  });

  it('is started by a small body only: what is sent without a session must not take BODIES_LIMIT from producers', async () => {
    const key = 'x'.repeat(4_096);
    expect((await signIn(key)).status).toBe(413);
    expect((await signIn(key.slice(0, 290))).status).toBe(401);
  });

  it('ends with a sign-out', async () => {
    const cookie = await cookieOf(READ_KEY);
    const ended = await callWith(cookie, 'DELETE', '/v1/session', SAME_ORIGIN);
    expect([ended.status, ended.headers.get('set-cookie')]).toEqual([
      204,
      `${cookie.split('=')[0]}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`,
    ]);
    expect((await one.call('GET', '/v1/session', { key: null })).status).toBe(401);
  });

  it('does not end, nor is ended by, the session of another service on this host: a browser tells no ports apart', async () => {
    const other = await startApp(database, {
      SECRETS_KEYS: `other=${Buffer.alloc(32, 3).toString('base64')}`,
      ROLES: 'api',
    });
    try {
      const cookies = [await cookieOf(ADMIN_KEY), await cookieOf(READ_KEY, other)];
      const names = cookies.map((cookie) => cookie.split('=')[0]!);
      expect(new Set(names).size).toBe(2);
      for (const jar of [cookies, cookies.toReversed()]) {
        const nameAt = async (replica: TestApp) =>
          (await callWith(jar.join('; '), 'GET', '/v1/session', {}, replica)).body.name;
        expect([await nameAt(one), await nameAt(other)]).toEqual(['admin', 'read']);
      }
      const ended = await callWith(cookies.join('; '), 'DELETE', '/v1/session', SAME_ORIGIN, other);
      expect(ended.headers.getSetCookie().map((cookie) => cookie.split('=')[0])).toEqual([names[1]]);
    } finally {
      await other.close();
    }
  });

  it('has ended also where its cookie has the name of the previous version', async () => {
    const value = (await cookieOf(READ_KEY)).split('=')[1];
    const cookie = `sluice_session=${value}`;
    expect((await callWith(cookie, 'GET', '/v1/session')).status).toBe(200);
    const ended = await callWith(cookie, 'DELETE', '/v1/session', SAME_ORIGIN);
    expect(ended.headers.getSetCookie().map((one) => one.split('=')[0])).toContain('sluice_session');
  });

  it('is not needed without API keys on this machine', async () => {
    const open = await startApp(database, { API_KEYS: '', ROLES: 'api' });
    try {
      const session = await open.call('GET', '/v1/session', { key: null });
      expect(session.body).toMatchObject({ name: 'open', scopes: ['admin'], open: true, expiresAt: null });
      expect((await open.call('GET', '/v1/messages', { key: null })).status).toBe(200);
      const foreign = { origin: 'https://stranger.example' };
      expect((await open.call('GET', '/v1/session', { key: null, headers: foreign })).status).toBe(403);
    } finally {
      await open.close();
    }
  });
});
