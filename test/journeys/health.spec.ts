import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { createApp } from '../../src/app.ts';
import { Loops } from '../../src/clock/loops.ts';
import { loadSettings } from '../../src/config/settings.ts';
import { createLog } from '../../src/telemetry/logger.ts';
import { HealthController } from '../../src/upkeep/health/health.controller.ts';
import { startApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { scrapeOften } from '../support/metrics.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database.drop());

describe('a replica', () => {
  it('is ready from when it listens until it starts to stop, and returns the reason before and after', async () => {
    const settings = loadSettings({ PORT: '0', ROLES: 'api' });
    const log = createLog(settings, { write: () => undefined });
    const app = await createApp(database.url, settings, log, []);
    expect(readyz(app.nest)).toEqual([503, { status: 'starting' }]);
    await app.listen();
    expect(readyz(app.nest)).toEqual([200, { status: 'ready' }]);
    const closed = app.close();
    expect(readyz(app.nest)).toEqual([503, { status: 'draining' }]);
    await closed;
  });

  it('is alive until a loop stalls, and names it', async () => {
    const replica = await startApp(database, { ROLES: 'api' });
    expect((await replica.call('GET', '/livez', { key: null })).body).toEqual({ status: 'alive' });
    const stuck = replica.app.nest.get(Loops).create('stuck', 1, () => new Promise(() => undefined));
    stuck.start();
    stuck.lastCycleAt = 0;
    const response = await replica.call('GET', '/livez', { key: null });
    expect([response.status, response.body]).toEqual([503, { status: 'stalled', loops: ['stuck'] }]);
    await replica.close();
  });

  it('stays alive and ready while the database is unavailable, and returns 503 with Retry-After', async () => {
    const proxy = await startTcpProxy(database.url);
    const replica = await startApp({ ...database, url: proxy.url }, { ROLES: 'api' });
    await proxy.close();

    for (const path of ['/livez', '/readyz', '/metrics']) {
      expect([path, (await replica.call('GET', path, { key: null })).status]).toEqual([path, 200]);
    }
    const calls: [string, string, unknown][] = [
      ['GET', '/v1/api-keys', undefined],
      ['POST', '/v1/api-keys', { name: 'n', scopes: ['read'] }],
      ['POST', '/v1/messages', { type: 't', payload: 1 }],
    ];
    for (const [method, path, body] of calls) {
      const response = await replica.call(method, path, { body });
      expect([path, response.status, response.body.type]).toEqual([
        path,
        503,
        'urn:sluice:problems/database-away',
      ]);
      expect(response.headers.get('retry-after')).toBe('1');
    }
    expect((await replica.call('GET', '/v1/api-keys', { key: 'sk_new_0123456789' })).status).toBe(503);
    await replica.close();
  });

  it('exposes its metrics under one prefix', async () => {
    const replica = await startApp(database, { ROLES: 'api' });
    const { text, headers } = await replica.call('GET', '/metrics', { key: null });
    const names = [...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name!);
    expect(headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter((name) => !name.startsWith('sluice_'))).toEqual([]);
    expect(text).toMatch(/^sluice_loop_last_cycle_timestamp_seconds\{loop="api-keys"\} \d/m);
    await replica.close();
  });

  it('collects its metrics at most once a second, for any number of scrapes', async () => {
    const replica = await startApp(database, { ROLES: 'api' });
    const collected = await scrapeOften(replica);
    const later = await until(async () => {
      const { text } = await replica.call('GET', '/metrics');
      return text.includes(`sluice_collected ${collected()}`) && collected() > 0 ? text : undefined;
    });
    expect(later).toContain('sluice_http_connections ');
    await replica.close();
  });
});

/** What the route would return: before and after it listens no HTTP request is possible. */
function readyz(nest: INestApplication): [number, unknown] {
  let status = 200;
  const body = nest.get(HealthController, { strict: false }).readyz({
    code: (changed: number) => {
      status = changed;
    },
  } as never);
  return [status, body];
}
