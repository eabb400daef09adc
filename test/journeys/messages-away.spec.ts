import { expect, it } from '@jest/globals';
import type pg from 'pg';
import { DataSource } from 'typeorm';
import { Database } from '../../src/database/database.ts';
import { metricsOf } from '../support/metrics.ts';
import { sharedReplicaBehindProxy } from '../support/shared-replica.ts';

const { proxy, replica } = sharedReplicaBehindProxy({
  ROLES: 'api',
  DATABASE_STATEMENT_TIMEOUT: '1s',
  INGEST_FLUSH_MESSAGES: '1',
  INGEST_WAIT: '1m',
});

const post = (id: string) => replica.call('POST', '/v1/messages', { body: { id, type: 't', payload: 1 } });

it('rejects all waiting posts as soon as a silent database is detected, and continues over new connections', async () => {
  await post('warm-up');
  const { pool } = replica.app.nest.get(Database);
  const idle = await Promise.all(Array.from({ length: 5 }, () => pool.connect()));
  for (const client of idle) client.release();
  proxy.blackHole();
  const responses = await Promise.all(['a', 'b', 'c', 'd', 'e'].map(post));
  for (const { status, body, headers } of responses) {
    expect([status, body.type]).toEqual([503, 'urn:sluice:problems/database-away']);
    expect(headers.get('retry-after')).toBe('1');
  }
  expect((await metricsOf(replica))('ingest_flush_messages_count')).toBe(2);
  expect((await post('a')).status).toBe(202);
});

it('detects a silent database once for all connections of readers', async () => {
  const { master } = replica.app.nest.get(DataSource).driver as unknown as { master: pg.Pool };
  const idle = await Promise.all(Array.from({ length: 5 }, () => master.connect()));
  for (const client of idle) client.release();
  proxy.blackHole();
  const read = () => replica.call('GET', '/v1/messages/warm-up');
  expect((await read()).status).toBe(503);
  expect((await read()).status).toBe(200);
});
