import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ADMIN_KEY, startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

let database: TestDatabase;
let one: TestApp;
let other: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  one = await startApp(database, { ROLES: 'api' });
  other = await startApp(database, { ROLES: 'api' });
});
afterAll(async () => {
  await Promise.all([one.close(), other.close()]);
  await database.drop();
});

describe('an API key', () => {
  it('created at one replica is known to the others at once, even right after their last refresh', async () => {
    for (let n = 0; n < 5; n++) {
      const [{ key }] = await Promise.all([
        create(`fresh-${n}`, ['admin']),
        statusAt(other, 'sk_x_12345678'),
      ]);
      expect(await statusAt(other, key)).toBe(200);
    }
  });

  it('revoked at one replica is refused there at once, and by the others within 5 s', async () => {
    const { id, key } = await create('leaver', ['admin']);
    expect(await statusAt(other, key)).toBe(200);
    const revokedAt = Date.now();
    expect((await one.call('DELETE', `/v1/api-keys/${id}`)).status).toBe(204);

    expect(await statusAt(one, key)).toBe(401);
    while ((await statusAt(other, key)) !== 401) expect(Date.now() - revokedAt).toBeLessThan(5_000);
  });

  it('is refused with any other secret', async () => {
    const { id, key } = await create('guessed', ['admin']);
    for (const wrong of [
      `${key}x`,
      key.slice(0, -1),
      `sk_${id}_${'0'.repeat(32)}`,
      `sk_admin_${key.split('_')[2]}`,
    ]) {
      expect([wrong, await statusAt(one, wrong)]).toEqual([wrong, 401]);
    }
  });

  it('allows what its scopes allow and no more', async () => {
    const { key } = await create('reader', ['read']);
    expect(await statusAt(one, key)).toBe(403);
    expect((await one.call('GET', '/v1/messages', { key })).status).toBe(200);
  });

  it('has a name that no other active key has, stored or configured; a revoked key frees its name', async () => {
    const { id } = await create('singular', ['read']);
    for (const name of ['singular', 'admin']) {
      const response = await other.call('POST', '/v1/api-keys', { body: { name, scopes: ['read'] } });
      expect([response.status, response.body.type]).toEqual([409, 'urn:sluice:problems/conflict']);
    }
    await one.call('DELETE', `/v1/api-keys/${id}`);
    expect((await create('singular', ['read'])).id).not.toBe(id);
  });

  it('is created once by concurrent requests for the same name', async () => {
    const body = { name: 'contended', scopes: ['read'] };
    const responses = await Promise.all(
      [one, other, one, other, one].map((replica) => replica.call('POST', '/v1/api-keys', { body })),
    );
    expect(responses.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409]);
  });

  it('is shown once and stored only as a hash', async () => {
    const { id, key } = await create('hashed', ['read']);
    const secret = key.split('_').slice(2).join('_');
    const listed = await one.call('GET', '/v1/api-keys?limit=500');
    const [row] = await database.query<{ whole: string; hash: Buffer }>(
      'SELECT k::text AS whole, secret_hash AS hash FROM api_key k WHERE id = $1',
      [id],
    );

    expect(key).toMatch(/^sk_[A-Za-z0-9]+_[\w-]{32}$/);
    expect(row!.hash).toEqual(createHash('sha256').update(secret).digest());
    for (const form of [
      secret,
      Buffer.from(secret).toString('hex'),
      Buffer.from(secret).toString('base64'),
    ]) {
      expect(row!.whole).not.toContain(form);
      expect(listed.text).not.toContain(form);
    }
    expect(listed.body.items.find((item: { id: string }) => item.id === id)).toEqual({
      id,
      name: 'hashed',
      scopes: ['read'],
      sources: null,
      keys: null,
      createdAt: expect.any(String),
      createdBy: 'admin',
      revokedAt: null,
    });
  });

  it('of the configuration is neither stored, nor listed, nor revocable', async () => {
    expect(await database.query(`SELECT FROM api_key WHERE name = 'admin'`)).toEqual([]);
    expect((await one.call('DELETE', '/v1/api-keys/admin')).status).toBe(404);
    expect(await statusAt(one, ADMIN_KEY)).toBe(200);
  });

  it('is on exactly one page of the list', async () => {
    const all = (await one.call('GET', '/v1/api-keys?limit=500')).body.items;
    const seen: unknown[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const page = await one.call('GET', `/v1/api-keys?limit=2${cursor && `&cursor=${cursor}`}`);
      expect(page.body.items.length).toBeLessThanOrEqual(2);
      seen.push(...page.body.items);
      cursor = page.body.next;
    }
    expect(all.length).toBeGreaterThan(2);
    expect(seen).toEqual(all);
  });
});

describe('a service without any key', () => {
  it('is open, on loopback only: no key is required', async () => {
    const open = await startApp(database, { API_KEYS: '', ROLES: 'api' });
    expect(open.settings.host).toBe('127.0.0.1');
    expect(new URL(open.url).hostname).toBe('127.0.0.1');
    expect(await statusAt(open, null)).toBe(200);
    expect(await statusAt(open, 'whatever')).toBe(200);
    await open.close();
  });
});

async function create(name: string, scopes: string[]): Promise<{ id: string; key: string }> {
  const response = await one.call('POST', '/v1/api-keys', { body: { name, scopes } });
  expect(response.status).toBe(201);
  return response.body;
}

/** The status of an admin's request. */
async function statusAt(replica: TestApp, key: string | null): Promise<number> {
  return (await replica.call('GET', '/v1/api-keys?limit=1', { key })).status;
}
