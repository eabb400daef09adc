import { get } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { ADMIN_KEY, CONSUME_KEY, PRODUCE_KEY, READ_KEY, startApp } from '../support/app.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const { database, replica } = sharedReplica({ METRICS_ACCESS: 'keyed' });

const KEY_OF = { produce: PRODUCE_KEY, consume: CONSUME_KEY, read: READ_KEY, admin: ADMIN_KEY } as const;

/** Does not read the body: that of a live stream has no end. */
async function statusOf(method: string, path: string, key: string | null): Promise<number> {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const response = await fetch(replica.url + path, { method, headers: headers as Record<string, string> });
  await response.body?.cancel();
  return response.status;
}

describe('access', () => {
  it('requires a key of the declared scope on every route that is not public', async () => {
    const created = await replica.call('POST', '/v1/api-keys', { body: { name: 'gone', scopes: ['admin'] } });
    await replica.call('DELETE', `/v1/api-keys/${created.body.id}`);

    for (const route of replica.app.routes) {
      if (route.access === 'public' || route.access === 'console') continue;
      const scope = route.access === 'metrics' ? 'read' : route.access;
      const path = route.url.replace(/:[A-Za-z]+/g, 'x').replace('*', 'x');
      const status = (key: string | null) => statusOf(route.method, path, key);

      expect([route, await status(null)]).toEqual([route, 401]);
      expect([route, await status('sk_nobody_0123456789abcdef')]).toEqual([route, 401]);
      expect([route, await status(created.body.key)]).toEqual([route, 401]);
      for (const [name, key] of Object.entries(KEY_OF)) {
        const allowed = name === scope || name === 'admin';
        const response = await status(key);
        expect([route, name, [401, 403].includes(response)]).toEqual([route, name, !allowed]);
        if (!allowed) expect([route, name, response]).toEqual([route, name, 403]);
      }
    }
  });

  it('without API keys serves callers on this machine, but no foreign page in a browser there', async () => {
    const open = await startApp(database, { API_KEYS: '' });
    const { host, port } = new URL(open.url);
    const status = (path: string, headers: Record<string, string>) =>
      new Promise((resolve, reject) => {
        const options = { host: '127.0.0.1', port, path, headers };
        get(options, (response) => resolve(response.resume().statusCode)).on('error', reject);
      });
    try {
      for (const path of ['/v1/messages', '/metrics']) {
        expect(await status(path, { host })).toBe(200);
        expect(await status(path, { host: `localhost:${port}` })).toBe(200);
        expect(await status(path, { host: `[::1]:${port}` })).toBe(200);
        expect(await status(path, { host, origin: `http://${host}` })).toBe(200);
        expect(await status(path, { host, origin: 'https://stranger.example' })).toBe(403);
        expect(await status(path, { host, origin: 'null' })).toBe(403);
        expect(await status(path, { host: `stranger.example:${port}` })).toBe(403);
      }
    } finally {
      await open.close();
    }
  });

  it('E9 serves health, metrics and /docs, and nothing else, on a replica without the role api', async () => {
    const worker = await startApp(database, { ROLES: 'inbox,outbox,upkeep' });
    const status = async (path: string) => (await worker.call('GET', path)).status;
    try {
      const styles = /docs\/\w+\/reference\.css/.exec((await worker.call('GET', '/docs')).text);
      const served = ['/livez', '/readyz', '/metrics', '/docs', `/${styles}`, '/openapi.json'];
      for (const path of served) expect([path, await status(path)]).toEqual([path, 200]);
      for (const { method, url, access } of worker.app.routes) {
        if (access === 'public' || access === 'metrics') continue;
        const response = await worker.call(method, url.replace(/:[A-Za-z]+/g, 'x').replace('*', 'x'));
        expect([method, url, response.status]).toEqual([method, url, 404]);
        if (method !== 'HEAD') expect(response.body.detail).toContain('ROLES');
      }
    } finally {
      await worker.close();
    }
  });
});
