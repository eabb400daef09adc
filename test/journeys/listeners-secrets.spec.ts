import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Listeners } from '../../src/listeners/listeners.ts';
import { ConfidentialBox } from '../../src/listeners/secrets/confidential.ts';
import type { TestApp } from '../support/app.ts';
import { replicasPerTest } from '../support/replicas-per-test.ts';
import { until } from '../support/until.ts';

const K1 = `k1=${randomBytes(32).toString('base64')}`;
const K2 = `k2=${randomBytes(32).toString('base64')}`;
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
  it('are nowhere in it in any form that can be read, nor are the values of headers', async () => {
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
    expect(whole).toContain('v1:k1:');
  });

  it('are opened by nobody when they were copied to another row, or changed: nothing is sent, and it is told', async () => {
    const replica = await start({ SECRETS_KEYS: K1 });
    await put(replica, 'victim');
    await put(replica, 'thief');
    await query(
      `UPDATE listener SET sealed = (SELECT sealed FROM listener WHERE name = 'thief'), revision = revision + 10
       WHERE name = 'victim'`,
    );
    await until(() => known(replica, 'victim')?.secrets.length === 0, 3_000);
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
    const told = replica.lines.filter((line) => line.includes('listeners.locked'));
    expect(told).toHaveLength(1);
    expect(told[0]).toContain('victim');

    expect((await replica.call('DELETE', '/v1/listeners/victim')).status).toBe(204);
    expect(await put(replica, 'victim')).toMatch(/^whsec_/);
    expect(known(replica, 'victim')).toMatchObject({ state: 'active' });
  });

  it('of an old secret stop to sign when its time is over, without any other change', async () => {
    const replica = await start({ SECRETS_KEYS: K1 });
    await put(replica, 'expiring');
    const box = replica.app.nest.get(ConfidentialBox);
    const soon = new Date(Date.now() + 1_500).toISOString();
    const secrets = [{ secret: 'whsec_new' }, { secret: 'whsec_old', until: soon }];
    await query(`UPDATE listener SET revision = revision + 1, sealed = $1 WHERE name = 'expiring'`, [
      await box.seal('expiring', { secrets, headers: {} }),
    ]);
    await until(() => known(replica, 'expiring')?.secrets.length === 2, 2_000);
    await until(() => known(replica, 'expiring')?.secrets.length === 1, 4_000);
    expect(known(replica, 'expiring')?.secrets).toEqual(['whsec_new']);
  });
});

describe('master keys', () => {
  it('are rotated without a moment in which a replica cannot sign', async () => {
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

  it('that are missing are named, and nothing is lost: with the key back all goes on', async () => {
    const secret = await put(await start({ SECRETS_KEYS: K1 }), 'waiting');
    const lacking = await start({ SECRETS_KEYS: K2, ROLES: 'api,upkeep' });
    const shown = (await lacking.call('GET', '/v1/listeners/waiting')).body;
    expect(shown.stateReason).toBe('its secrets cannot be read: key k1 is not in SECRETS_KEYS');
    expect(known(lacking, 'waiting')).toMatchObject({ state: 'disabled', secrets: [] });
    expect(lacking.app.nest.get(Listeners).of('a')).toHaveLength(1);
    expect(await sealedWith()).toEqual(['k1']);
    expect(known(await start({ SECRETS_KEYS: `${K2},${K1}` }), 'waiting')?.secrets).toEqual([secret]);
  });

  it('are made and kept beside the data when none is given, for all replicas of the machine', async () => {
    const DATA_DIRECTORY = mkdtempSync(join(tmpdir(), 'sluice-keys-'));
    const [one, other] = [await start({ DATA_DIRECTORY }), await start({ DATA_DIRECTORY })];
    const secret = await put(one, 'kept');
    await until(() => known(other, 'kept')?.secrets[0] === secret, 2_000);
    expect(one.lines.filter((line) => line.includes('secrets.key-made'))).toHaveLength(1);
    const configured = await start({ DATA_DIRECTORY, SECRETS_KEYS: K1, ROLES: 'api,upkeep' });
    expect(known(configured, 'kept')?.secrets).toEqual([secret]);
    await until(async () => (await sealedWith())[0] === 'k1');
  });

  it('that can neither be found nor made: a listener is refused with the next step, the rest works', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-keys-'));
    writeFileSync(join(folder, 'file'), '');
    const replica = await start({ DATA_DIRECTORY: join(folder, 'file', 'data') });
    const answer = await replica.call('PUT', '/v1/listeners/x', { body: BODY });
    expect([answer.status, answer.body.detail]).toEqual([409, expect.stringMatching(/set SECRETS_KEYS/)]);
    expect(answer.text).not.toContain(folder);
    expect((await replica.call('GET', '/v1/listeners')).body.items).toEqual([]);
  });
});
