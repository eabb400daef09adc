import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { loadSettings } from '../../src/config/settings.ts';
import type { TestApp } from '../support/app.ts';
import { replicasPerTest } from '../support/replicas-per-test.ts';

const DEFINITION = { types: ['a'], url: 'https://1.1.1.1/' };
const SECRETS_KEYS = `k1=${'A'.repeat(43)}=`;

const { start, refusal, query } = replicasPerTest({ ROLES: 'api', SECRETS_KEYS });

const put = (replica: TestApp, name: string, timeout: string) =>
  replica.call('PUT', `/v1/listeners/${name}`, { body: { ...DEFINITION, timeout } });

/** While a call is in flight no other replica may take its lane, or a delivery would be sent twice at once. */
describe('OUTBOX_LEASE is at least 10 s longer than any call', () => {
  it('is refused when it does not cover the default timeout of listeners', () => {
    expect(() => loadSettings({ OUTBOX_LEASE: '24s' })).toThrow(
      'OUTBOX_LEASE=24s is not allowed; allowed: duration, 25s to 10m',
    );
    expect(loadSettings({ OUTBOX_LEASE: '25s' }).outboxLease).toBe(25_000);
  });

  it.each([
    ['25s', '15s', '15001ms'],
    ['60s', '50s', '51s'],
    ['70s', '60s', '61s'],
  ])(
    'with %s a timeout of %s is accepted, and one of %s refused with the setting',
    async (lease, longest, longer) => {
      const replica = await start({ OUTBOX_LEASE: lease });
      expect((await put(replica, 'fits', longest)).status).toBe(201);
      const response = await put(replica, 'fits', longer);
      expect(response.status).toBe(422);
      expect(response.body.errors).toEqual([{ pointer: '/timeout', detail: expect.any(String) }]);
      if (lease !== '70s') expect(response.body.detail).toContain('OUTBOX_LEASE');
      expect((await replica.call('GET', '/v1/listeners/fits')).body.timeout).toBe(longest);
    },
  );

  it('a listeners file with a longer one is refused with the line, and nothing of it is applied', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'sluice-lease-')), 'listeners.yaml');
    const entry = (name: string, timeout: string) =>
      `  - name: ${name}\n    types: [a]\n    url: https://1.1.1.1/\n    timeout: ${timeout}\n`;
    writeFileSync(file, `listeners:\n${entry('good', '15s')}${entry('long', '30s')}`);
    expect(await refusal({ LISTENERS_FILE: file, OUTBOX_LEASE: '35s' })).toBe(
      `${file}:9: listeners[1].timeout must be at most 25s with this OUTBOX_LEASE (35s)`,
    );
    expect(await query('SELECT FROM listener')).toEqual([]);
  });

  it('a start with a lease too short for existing listeners is refused in one line that names both', async () => {
    const replica = await start({ OUTBOX_LEASE: '70s' });
    await put(replica, 'patient', '60s');
    await put(replica, 'calm', '45s');
    await put(replica, 'quick', '5s');
    expect(await refusal({ OUTBOX_LEASE: '50s' })).toBe(
      'OUTBOX_LEASE=50s is too short for the timeout of listeners (patient 1m, calm 45s); ' +
        'set 70s or more, or start with that and shorten their timeout first',
    );
    await put(replica, 'patient', '40s');
    expect(await refusal({ OUTBOX_LEASE: '50s' })).toContain('(calm 45s)');
    await replica.call('DELETE', '/v1/listeners/calm');
    await start({ OUTBOX_LEASE: '50s' });
  });
});
