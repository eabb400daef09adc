import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type pg from 'pg';
import { DataSource } from 'typeorm';
import { Database } from '../../src/database/database.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { metricsOf } from '../support/metrics.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

let database: TestDatabase;
let proxy: TcpProxy;
let replica: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  proxy = await startTcpProxy(database.url);
  replica = await startApp(
    { ...database, url: proxy.url },
    { ROLES: 'api', DATABASE_STATEMENT_TIMEOUT: '1s', INGEST_FLUSH_MESSAGES: '1', INGEST_WAIT: '1m' },
  );
});
afterAll(async () => {
  await replica.close();
  await proxy.close();
  await database.drop();
});

const post = (id: string) => replica.call('POST', '/v1/messages', { body: { id, type: 't', payload: 1 } });

it('tells all who wait as soon as a silent database is found out, and goes on over new connections', async () => {
  await post('warm-up');
  const { pool } = replica.app.nest.get(Database);
  const idle = await Promise.all(Array.from({ length: 5 }, () => pool.connect()));
  for (const client of idle) client.release();
  proxy.blackHole();
  const answers = await Promise.all(['a', 'b', 'c', 'd', 'e'].map(post));
  for (const { status, body, headers } of answers) {
    expect([status, body.type]).toEqual([503, 'urn:sluice:problems/database-away']);
    expect(headers.get('retry-after')).toBe('1');
  }
  expect((await metricsOf(replica))('ingest_flush_messages_count')).toBe(2);
  expect((await post('a')).status).toBe(202);
});

it('finds out once for all connections of readers that the database was silent', async () => {
  const { master } = replica.app.nest.get(DataSource).driver as unknown as { master: pg.Pool };
  const idle = await Promise.all(Array.from({ length: 5 }, () => master.connect()));
  for (const client of idle) client.release();
  proxy.blackHole();
  const read = () => replica.call('GET', '/v1/messages/warm-up');
  expect((await read()).status).toBe(503);
  expect((await read()).status).toBe(200);
});
