import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { QUEUE_SETTINGS, takeOver } from './lane-queue.sql.ts';

const TOKEN = '11111111-1111-1111-1111-111111111111';
const RECORD = `INSERT INTO attempt (delivery, attempt, error) SELECT position, attempt, 'unknown' FROM lost`;

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
  await database.query(
    `INSERT INTO lane (queue, lane, token, crashes) VALUES ('outbox', 256, $1, 1), ('outbox', 257, $1, 3), ('outbox', 258, $1, 0)`,
    [TOKEN],
  );
  await database.query(
    `INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at)
     SELECT 1, 256 + n % 3, n, 'k', n, 'finished', now() FROM generate_series(1, 20000) AS n`,
  );
  await database.query(
    `INSERT INTO outbox (position, listener, lane, message, key, sequence, status, waits, attempt) VALUES
       (100001, 1, 256, 1, 'held', 1, 'processing', 'held', 2),
       (100002, 1, 256, 1, 'held', 2, 'held', 'held', 0),
       (100003, 1, 256, 1, 'ready', 1, 'processing', NULL, 1),
       (100004, 1, 256, 1, 'later', 1, 'pending', NULL, 0),
       (100005, 1, 257, 1, 'deadly', 1, 'processing', NULL, 1),
       (100006, 1, 258, 1, 'alive', 1, 'processing', NULL, 1)`,
  );
  await database.query(
    `INSERT INTO hold (queue, lane, key, until, reason) VALUES ('outbox', 256, 'held', now(), 'retry')`,
  );
});
afterAll(() => database.drop());

const statement = takeOver({ table: 'outbox', columns: 'id', onTakeOver: RECORD });
const values = ['outbox', TOKEN, 3, [256, 257, 258]];

describe('taking over from a crashed owner', () => {
  it('finds its claimed rows by the indexes of the queue, not by reading all settled rows', async () => {
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query('BEGIN');
    await client.query(QUEUE_SETTINGS);
    const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS) ${statement}`, values);
    await client.query('ROLLBACK');
    await client.end();
    const plan: string = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).not.toMatch(/Seq Scan on outbox/);
    expect(Number(/Buffers: shared hit=(\d+)/.exec(plan)![1])).toBeLessThan(200);
  });

  it('gives them back as they were, without counting an attempt unless one was alone, and returns their positions', async () => {
    await database.query(statement, values);
    const rows = await database.query<{ position: string; status: string; attempt: number }>(
      'SELECT position, status, attempt FROM outbox WHERE position > 100000 ORDER BY position',
    );
    expect(rows.map(({ status, attempt }) => `${status} ${attempt}`)).toEqual([
      'held 1',
      'held 0',
      'pending 0',
      'pending 0',
      'pending 1',
      'processing 1',
    ]);
    const reported = await database.query<{ delivery: string; attempt: number }>(
      'SELECT delivery, attempt FROM attempt ORDER BY delivery',
    );
    expect(reported.map(({ delivery, attempt }) => [Number(delivery), attempt])).toEqual([
      [100001, 2],
      [100003, 1],
      [100005, 1],
    ]);
  });
});
