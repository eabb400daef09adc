import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Listeners } from '../../src/listeners/listeners.ts';
import { ConfidentialBox } from '../../src/listeners/secrets/confidential.ts';
import { Reseal } from '../../src/listeners/secrets/reseal.ts';
import { READ_KEY, type TestApp } from '../support/app.ts';
import { replicasPerTest } from '../support/replicas-per-test.ts';
import { sealedByPreviousVersion } from '../support/sealed-by-previous-version.ts';
import { until } from '../support/until.ts';

const K1 = `k1=${randomBytes(32).toString('base64')}`;
const K2 = `k2=${randomBytes(32).toString('base64')}`;
const SECRET = `whsec_${randomBytes(32).toString('base64')}`;
const BODY = { types: ['a'], url: 'https://1.1.1.1/hook', headers: { 'X-Token': 'canary-of-a-token' } };

const { start, stop, query } = replicasPerTest({ ROLES: 'api', DATA_DIRECTORY: '/nowhere' });

const put = async (replica: TestApp, name: string) =>
  (await replica.call('PUT', `/v1/listeners/${name}`, { body: BODY })).body.secret as string;
const known = (replica: TestApp, name: string) =>
  replica.app.nest
    .get(Listeners)
    .all()
    .find((listener) => listener.name === name);
const sealedWith = async () =>
  (await query<{ key: string }>(`SELECT split_part(sealed, ':', 2) AS key FROM listener`)).map(
    ({ key }) => key,
  );

describe('secrets in the database', () => {
  it('are stored in no readable form, nor are the values of headers', async () => {
    const replica = await start({ SECRETS_KEYS: K1 });
    const first = await put(replica, 'sealed');
    const { secret: second } = (await replica.call('POST', '/v1/listeners/sealed/rotate-secret')).body;
    const rows = await query<{ whole: string }>('SELECT listener::text AS whole FROM listener');
    const whole = rows.map((row) => row.whole).join();
    for (const secret of [first, second, 'canary-of-a-token', K1.slice(3)]) {
      const plain = Buffer.from(secret.replace('whsec_', ''), 'base64');
      const forms = [secret, secret.replace('whsec_', ''), Buffer.from(secret).toString('hex')];
      for (const form of [...forms, Buffer.from(secret).toString('base64url'), plain.toString('hex')])
        expect(whole).not.toContain(form.replace(/=+$/, ''));
    }
    expect(whole).toContain('v2:k1:');
  });

  it('include the URL except its origin; the table accepts no plain URL next to a sealed one', async () => {
    const replica = await start({ SECRETS_KEYS: K1 });
    const url = 'https://1.1.1.1:8443/hooks/canary-of-a-path?token=canary-of-a-query';
    await replica.call('PUT', '/v1/listeners/addressed', { body: { ...BODY, url } });
    await replica.call('POST', '/v1/listeners/addressed/rotate-secret');
    const [row] = await query<{ whole: string }>('SELECT listener::text AS whole FROM listener');
    expect(row!.whole).not.toContain('canary');
    expect(row!.whole).toContain('https://1.1.1.1:8443');
    expect(known(replica, 'addressed')?.url).toBe(url);
    await expect(
      query(`UPDATE listener SET definition = definition || '{"url": "https://1.1.1.1/"}'`),
    ).rejects.toThrow('listener_url_sealed');
  });

  it('cannot be opened when they were copied to another row or changed: nothing is sent, and it is logged', async () => {
    const replica = await start({ SECRETS_KEYS: K1 });
    await put(replica, 'victim');
    await put(replica, 'thief');
    await query(
      `UPDATE listener SET sealed = (SELECT sealed FROM listener WHERE name = 'thief'), revision = revision + 10
       WHERE name = 'victim'`,
    );
    await until(() => known(replica, 'victim')?.secrets.length === 0);
    expect(known(replica, 'victim')).toMatchObject({ state: 'disabled', headers: {} });
    expect(known(replica, 'thief')).toMatchObject({ state: 'active' });
    const shown = (await replica.call('GET', '/v1/listeners/victim')).body;
    expect([shown.state, shown.stateReason]).toEqual([
      'disabled',
      expect.stringMatching(/^its secrets cannot be read: .*of another listener/),
    ]);
    for (const [method, path] of [
      ['PUT', ''],
      ['POST', '/rotate-secret'],
      ['POST', '/test'],
    ] as const) {
      const body = method === 'PUT' ? { body: BODY } : {};
      expect((await replica.call(method, `/v1/listeners/victim${path}`, body)).status).toBe(409);
    }
    const reported = replica.lines.filter((line) => line.includes('listeners.locked'));
    expect(reported).toHaveLength(1);
    expect(reported[0]).toContain('victim');

    expect((await replica.call('DELETE', '/v1/listeners/victim')).status).toBe(204);
    expect(await put(replica, 'victim')).toMatch(/^whsec_/);
    expect(known(replica, 'victim')).toMatchObject({ state: 'active' });
  });

  it('that are old stop signing when their time is over, without any other change', async () => {
    const replica = await start({ SECRETS_KEYS: K1 });
    await put(replica, 'expiring');
    const box = replica.app.nest.get(ConfidentialBox);
    const soon = new Date(Date.now() + 8_000).toISOString();
    const secrets = [{ secret: 'whsec_new' }, { secret: 'whsec_old', until: soon }];
    await query(`UPDATE listener SET revision = revision + 1, sealed = $1 WHERE name = 'expiring'`, [
      await box.seal('expiring', { secrets, headers: {}, url: BODY.url }),
    ]);
    await until(() => known(replica, 'expiring')?.secrets.length === 2, 8_000);
    await until(() => known(replica, 'expiring')?.secrets.length === 1);
    expect(known(replica, 'expiring')?.secrets).toEqual(['whsec_new']);
  });
});

describe('a listener of the previous version, with a plain URL', () => {
  const url = 'https://1.1.1.1/hooks/canary-of-a-path?token=canary';
  const content = { secrets: [{ secret: SECRET }], headers: { 'X-Token': 'blue' } };
  const make = async (name: string, masterKey = K1) => {
    await query(
      `INSERT INTO listener (revision, name, definition, types, lanes, sealed, secret_from, origin, state_by, created_by, updated_by)
       VALUES ((SELECT COALESCE(max(revision), 0) + 1 FROM listener), $1, $2, '{a}', 16, $3, 'service', 'api', 'x', 'x', 'x')`,
      [name, JSON.stringify({ types: ['a'], url }), sealedByPreviousVersion(name, content, masterKey)],
    );
  };
  const stored = async (name: string) =>
    (
      await query<{ sealed: string; whole: string }>(
        'SELECT sealed, listener::text AS whole FROM listener WHERE name = $1',
        [name],
      )
    )[0]!;

  it('is known and shown like any other', async () => {
    await make('before');
    const replica = await start({ SECRETS_KEYS: K1 });
    expect(known(replica, 'before')).toMatchObject({ url, secrets: [SECRET], state: 'active' });
    expect((await replica.call('GET', '/v1/listeners/before')).body.url).toBe(url);
    const asReader = await replica.call('GET', '/v1/listeners/before', { key: READ_KEY });
    expect(asReader.body.url).toBe('https://1.1.1.1/…');
  });

  it('stays readable for the previous version during an upgrade, and is sealed with its URL after it', async () => {
    await make('before');
    const replica = await start({ SECRETS_KEYS: K1 });
    const reseal = replica.app.nest.get(Reseal);
    await reseal.pass();
    expect((await stored('before')).sealed).toMatch(/^v1:k1:/);

    await reseal.pass(true);
    const { sealed, whole } = await stored('before');
    expect(sealed).toMatch(/^v2:k1:/);
    expect(whole).not.toContain('canary');
    await replica.app.nest.get(Listeners).refresh();
    const now = known(replica, 'before');
    expect(now).toMatchObject({ url, secrets: [SECRET], headers: content.headers, state: 'active' });
    expect((await replica.call('GET', '/v1/listeners/before')).body).toMatchObject({ url, types: ['a'] });

    const { revision } = replica.app.nest.get(Listeners).byNumber(now!.number)!;
    await reseal.pass(true);
    await replica.app.nest.get(Listeners).refresh();
    expect(known(replica, 'before')!.revision).toBe(revision);
  });

  it('is sealed with its URL at once when it is changed', async () => {
    await make('before');
    const replica = await start({ SECRETS_KEYS: K1 });
    expect((await replica.call('POST', '/v1/listeners/before/rotate-secret')).status).toBe(200);
    expect((await stored('before')).sealed).toMatch(/^v2:/);
    expect((await stored('before')).whole).not.toContain('canary');
    expect(known(replica, 'before')).toMatchObject({ url, headers: content.headers });
  });

  it('whose key is missing keeps its URL, so that nothing is lost', async () => {
    await make('before', K2);
    const replica = await start({ SECRETS_KEYS: K1 });
    await replica.app.nest.get(Reseal).pass(true);
    expect((await stored('before')).whole).toContain('canary');
    expect(known(replica, 'before')).toMatchObject({ state: 'disabled', url: '' });
    const back = await start({ SECRETS_KEYS: `${K1},${K2}` });
    await back.app.nest.get(Reseal).pass(true);
    expect((await stored('before')).whole).not.toContain('canary');
    expect(known(back, 'before')).toMatchObject({ state: 'active', url });
  });

  it('leaves no URL in the database when it is deleted', async () => {
    await make('before');
    const replica = await start({ SECRETS_KEYS: K1 });
    expect((await replica.call('DELETE', '/v1/listeners/before')).status).toBe(204);
    await replica.app.nest.get(Reseal).pass();
    expect((await stored('before')).whole).not.toContain('canary');
    expect(await put(replica, 'before')).toMatch(/^whsec_/);
    expect(known(replica, 'before')).toMatchObject({ url: BODY.url });
  });
});

describe('master keys', () => {
  it('are rotated while every replica can sign at any time', async () => {
    const before = await start({ SECRETS_KEYS: K1 });
    const secret = await put(before, 'steady');
    const prepared = await start({ SECRETS_KEYS: `${K1},${K2}` });
    expect(known(prepared, 'steady')?.secrets).toEqual([secret]);
    expect(await sealedWith()).toEqual(['k1']);
    await stop(before);

    const rotating = await start({ SECRETS_KEYS: `${K2},${K1}`, ROLES: 'api,upkeep' });
    await until(async () => (await sealedWith())[0] === 'k2');
    await prepared.app.nest.get(Listeners).refresh();
    expect(known(prepared, 'steady')?.secrets).toEqual([secret]);
    await rotating.app.nest.get(Listeners).refresh();
    const { text } = await rotating.call('GET', '/metrics');
    expect(text).toMatch(/sluice_listener_secrets\{key="k2"\} 1/);
    expect(text).not.toMatch(/sluice_listener_secrets\{key="k1"\}/);

    const after = await start({ SECRETS_KEYS: K2 });
    expect(known(after, 'steady')).toMatchObject({
      secrets: [secret],
      headers: BODY.headers,
      state: 'active',
    });
  });

  it('that are missing are named, and nothing is lost: with the key back everything continues', async () => {
    const secret = await put(await start({ SECRETS_KEYS: K1 }), 'waiting');
    const lacking = await start({ SECRETS_KEYS: K2, ROLES: 'api,upkeep' });
    const shown = (await lacking.call('GET', '/v1/listeners/waiting')).body;
    expect(shown.stateReason).toBe('its secrets cannot be read: key k1 is not in SECRETS_KEYS');
    expect(known(lacking, 'waiting')).toMatchObject({ state: 'disabled', secrets: [] });
    expect(lacking.app.nest.get(Listeners).of('a')).toHaveLength(1);
    expect(await sealedWith()).toEqual(['k1']);
    expect(known(await start({ SECRETS_KEYS: `${K2},${K1}` }), 'waiting')?.secrets).toEqual([secret]);
  });

  it('are created and stored with the data when none is set, for all replicas of the machine', async () => {
    const DATA_DIRECTORY = mkdtempSync(join(tmpdir(), 'sluice-keys-'));
    const [one, other] = [await start({ DATA_DIRECTORY }), await start({ DATA_DIRECTORY })];
    const secret = await put(one, 'kept');
    await until(() => known(other, 'kept')?.secrets[0] === secret);
    expect(one.lines.filter((line) => line.includes('secrets.key-generated'))).toHaveLength(1);
    const configured = await start({ DATA_DIRECTORY, SECRETS_KEYS: K1, ROLES: 'api,upkeep' });
    expect(known(configured, 'kept')?.secrets).toEqual([secret]);
    await until(async () => (await sealedWith())[0] === 'k1');
  });

  it('that can neither be read nor created: a listener is refused with the next step, the rest works', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-keys-'));
    writeFileSync(join(folder, 'file'), '');
    const replica = await start({ DATA_DIRECTORY: join(folder, 'file', 'data') });
    const response = await replica.call('PUT', '/v1/listeners/x', { body: BODY });
    expect([response.status, response.body.detail]).toEqual([409, expect.stringMatching(/set SECRETS_KEYS/)]);
    expect(response.text).not.toContain(folder);
    expect((await replica.call('GET', '/v1/listeners')).body.items).toEqual([]);
  });
});
