import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { loadSettings } from '../../src/config/settings.ts';
import { startEmbeddedPostgres } from '../../src/database/embedded/embedded-postgres.ts';
import { migrate } from '../../src/database/migrate.ts';
import { ADMIN_KEY, type ApiResponse, startApp, type TestApp } from '../support/app.ts';
import { type BuiltService, build, run } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { metricsOf } from '../support/metrics.ts';
import { SCHEMA } from '../support/schema.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;
let service: BuiltService | undefined;

beforeAll(async () => {
  build();
  database = await createDatabase();
});
afterAll(async () => {
  service?.child.kill('SIGKILL');
  await database.drop();
});

const message = (id: string) => ({ id, type: 't', payload: { id } });
const post = (replica: TestApp, id: string) => replica.call('POST', '/v1/messages', { body: message(id) });
const stored = (prefix: string) =>
  database.query<{ id: string }>(`SELECT id FROM inbox WHERE id LIKE '${prefix}-%' ORDER BY position`);

describe('a 202', () => {
  it('is sent after the COMMIT succeeded, and no statement makes it less durable', async () => {
    const proxy = await startTcpProxy(database.url);
    const replica = await startApp({ ...database, url: proxy.url }, { ROLES: 'api' });
    await post(replica, 'warm-up');
    proxy.holdResponses();
    let responded = false;
    const posted = post(replica, 'held-1').finally(() => {
      responded = true;
    });
    await until(async () => (await stored('held')).length === 1);
    expect(responded).toBe(false);
    proxy.releaseResponses();
    expect((await posted).status).toBe(202);
    expect(proxy.statements.join('\n')).not.toMatch(/synchronous_commit|UNLOGGED|fsync/i);
    await replica.close();
    await proxy.close();
  });

  it('is not sent when the connection breaks at the COMMIT; a repeat learns whether it was stored', async () => {
    const proxy = await startTcpProxy(database.url);
    const cut = await startApp({ ...database, url: proxy.url }, { ROLES: 'api' });
    const other = await startApp(database, { ROLES: 'api' });
    await post(cut, 'warm-up');
    proxy.holdResponses();
    const posted = post(cut, 'cut-1');
    await until(async () => (await stored('cut')).length === 1);
    await proxy.close();
    const response = await posted;
    expect([response.status, response.body.type]).toEqual([503, 'urn:sluice:problems/database-away']);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(await post(other, 'cut-1')).toMatchObject({ status: 200, body: { duplicate: true } });
    await cut.close();
    await other.close();
  });

  it('survives a kill -9 directly after it', async () => {
    const keys = `admin=admin:${ADMIN_KEY}`;
    const settings = { DATABASE_URL: database.url, API_KEYS: keys, HOST: '127.0.0.1', ROLES: 'api' };
    const running = run(settings);
    service = running;
    const url = await running.url();
    const acknowledged: string[] = [];
    const send = async (n: number) => {
      const id = `killed-${n}`;
      const response = await fetch(`${url}/v1/messages`, {
        method: 'POST',
        headers: { authorization: `Bearer ${ADMIN_KEY}`, 'content-type': 'application/json' },
        body: JSON.stringify(message(id)),
      });
      if (response.status !== 202) return;
      acknowledged.push(id);
      running.child.kill('SIGKILL');
    };
    await Promise.allSettled(Array.from({ length: 100 }, (_, n) => send(n)));
    expect(await running.exit()).toBe('SIGKILL');
    expect(acknowledged.length).toBeGreaterThan(0);
    const ids = (await stored('killed')).map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(acknowledged));
  });
});

describe('an overload', () => {
  it('is refused with 503 and Retry-After: queue and connections stay limited, and every request gets a response', async () => {
    const replica = await startApp(database, {
      ROLES: 'api',
      INGEST_WAITING_MESSAGES: '50',
      DATABASE_POOL_SIZE: '4',
    });
    const blocker = await openSession(database);
    await blocker.query('BEGIN; LOCK TABLE inbox IN ACCESS EXCLUSIVE MODE');
    const responses: ApiResponse[] = [];
    const posts = Array.from({ length: 500 }, async (_, n) =>
      responses.push(await post(replica, `much-${n}`)),
    );
    await untilBlocked(database);
    await until(() => responses.length === 450);
    for (const { status, body, headers } of responses) {
      expect([status, body.type]).toEqual([503, 'urn:sluice:problems/overloaded']);
      expect(headers.get('retry-after')).toBe('1');
    }
    expect((await metricsOf(replica))('ingest_waiting_messages')).toBe(50);
    expect((await metricsOf(replica))('messages_refused_total{reason="overloaded"}')).toBe(450);
    const [connections] = await database.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'sluice engine'`,
    );
    expect(connections!.n).toBeLessThanOrEqual(4);

    await blocker.query('COMMIT');
    await Promise.all(posts);
    const taken = responses.filter(({ status }) => status === 202);
    expect(taken).toHaveLength(50);
    expect((await stored('much')).length).toBe(50);
    for (const n of [0, 499]) expect([200, 202]).toContain((await post(replica, `much-${n}`)).status);
    await blocker.close();
    await replica.close();
  });

  it('refuses a batch larger than the whole queue only while something waits', async () => {
    const replica = await startApp(database, { ROLES: 'api', INGEST_WAITING_MESSAGES: '50' });
    const messages = Array.from({ length: 60 }, (_, n) => message(`large-${n}`));
    const response = await replica.call('POST', '/v1/messages/batch', { body: { messages } });
    expect(response.status).toBe(202);
    await replica.close();
  });

  it('is never a 500: a lock longer than the statement timeout is a 503', async () => {
    const replica = await startApp(database, { ROLES: 'api', DATABASE_STATEMENT_TIMEOUT: '1s' });
    const blocker = await openSession(database);
    await blocker.query('BEGIN; LOCK TABLE inbox IN ACCESS EXCLUSIVE MODE');
    const responses = await Promise.all(['busy-1', 'busy-2', 'busy-3'].map((id) => post(replica, id)));
    for (const { status, body, headers } of responses) {
      expect([status, body.type]).toEqual([503, 'urn:sluice:problems/overloaded']);
      expect(headers.get('retry-after')).toBe('1');
    }
    await blocker.query('COMMIT');
    expect((await post(replica, 'busy-1')).status).toBe(202);
    await blocker.close();
    await replica.close();
  });
});

describe('a PostgreSQL that restarts under load', () => {
  it('loses no 202 and stores nothing twice; meanwhile 503, then everything continues by itself', async () => {
    const dataDirectory = mkdtempSync(join(tmpdir(), 'sluice-restart-'));
    const startServer = () => startEmbeddedPostgres({ dataDirectory, settings: { full_page_writes: 'off' } });
    let server = await startServer();
    const { url } = server;
    await migrate(url, loadSettings({}), SCHEMA);
    const replica = await startApp({ ...database, url }, { ROLES: 'api', DATABASE_CONNECT_TIMEOUT: '5s' });

    const seen = new Map<string, number>();
    const acknowledged: string[] = [];
    let stopping = false;
    let next = 0;
    const produce = async () => {
      while (!stopping) {
        const id = `r-${next++}`;
        while (!(await sendOnce(id)) && !stopping) await pause(10);
      }
    };
    const sendOnce = async (id: string) => {
      const { status, body, headers } = await post(replica, id);
      const what = status === 503 ? body.type : String(status);
      seen.set(what, (seen.get(what) ?? 0) + 1);
      if (status === 503) expect(headers.get('retry-after')).toBe('1');
      if (status !== 503) acknowledged.push(id);
      return status !== 503;
    };
    const producers = Array.from({ length: 20 }, produce);

    for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
      const count = acknowledged.length;
      await until(() => acknowledged.length > count + 100);
      process.kill(server.pid, signal);
      await server.exited;
      await server.stop();
      const refused = seen.get('urn:sluice:problems/database-away') ?? 0;
      await until(() => (seen.get('urn:sluice:problems/database-away') ?? 0) > refused + 20);
      server = await startServer();
      expect(server.url).toBe(url);
    }
    const count = acknowledged.length;
    await until(() => acknowledged.length > count + 100);
    stopping = true;
    await Promise.all(producers);

    expect([...seen.keys()].sort()).toEqual(
      expect.arrayContaining(['202', 'urn:sluice:problems/database-away']),
    );
    const allowed = ['200', '202', 'urn:sluice:problems/database-away'];
    expect([...seen.keys()].filter((what) => !allowed.includes(what))).toEqual([]);
    const client = new pg.Client(url);
    await client.connect();
    const { rows } = await client.query('SELECT id FROM inbox');
    await client.end();
    const ids = rows.map(({ id }) => id as string);
    expect(new Set(ids).size).toBe(ids.length);
    expect(acknowledged.filter((id) => !ids.includes(id))).toEqual([]);
    await replica.close();
    await server.stop();
    await rm(dataDirectory, { recursive: true, force: true });
  });
});
