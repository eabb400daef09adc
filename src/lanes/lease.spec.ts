import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { until } from '../../test/support/until.ts';
import { FENCE, RELEASE, RENEW } from './lease.ts';

/** Named in another order than they are locked. */
const LANES = Array.from({ length: 40 }, (_, n) => n).toReversed();
const TOKEN = '00000000-0000-4000-8000-000000000000';
const TOKENS = LANES.map(() => TOKEN);

let database: TestDatabase;
const clients: pg.Client[] = [];

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  clients.push(client);
  return client;
}

beforeAll(async () => {
  database = await createDatabase();
  for (const lane of LANES)
    await database.query(
      `INSERT INTO lane (queue, lane, token, leased_until) VALUES ('outbox', $1, $2, now())`,
      [lane, TOKEN],
    );
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.end()));
  await database.drop();
});

describe('leased lanes', () => {
  it.each<[what: string, sql: string, values: unknown[]]>([
    ['fenced', FENCE, ['outbox', LANES, TOKENS]],
    ['renewed', RENEW, ['outbox', LANES, TOKENS, 60_000]],
    ['released', RELEASE, ['outbox', LANES, TOKENS]],
  ])('are %s in the order of their numbers, which prevents deadlocks', async (_what, sql, values) => {
    const [holder, waiter, observer] = await Promise.all([connect(), connect(), connect()]);
    await holder.query('BEGIN');
    await holder.query(`SELECT FROM lane WHERE queue = 'outbox' AND lane = 0 FOR UPDATE`);
    await waiter.query('BEGIN');
    const waiting = waiter.query(sql, values);
    const blocked = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await until(async () => (await observer.query(blocked)).rowCount === 1);
    await observer.query(`SELECT FROM lane WHERE queue = 'outbox' AND lane > 0 FOR UPDATE NOWAIT`);
    await holder.query('ROLLBACK');
    expect((await waiting).rowCount).toBe(LANES.length);
    await waiter.query('ROLLBACK');
  });
});
