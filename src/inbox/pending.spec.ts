import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { PENDING_MESSAGES } from './pending.sql.ts';

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
  await database.query(
    `INSERT INTO inbox (id, source, type, key, lane, payload, status, attempt, settled_at)
     SELECT 'old-' || n, 's', 't', 'busy', 1, '{}', 'finished', 1, now() FROM generate_series(1, 20000) AS n`,
  );
  await database.query(
    `INSERT INTO inbox (id, source, type, key, lane, payload, status, waits, due_at) VALUES
       ('held', 's', 't', 'busy', 1, '{}', 'held', 'held', NULL), ('other', 's', 't', 'other', 1, '{}', 'pending', NULL, NULL),
       ('ready', 's', 't', 'busy', 1, '{}', 'pending', NULL, NULL),
       ('later', 's', 't', 'busy', 1, '{}', 'scheduled', 'due', now() + interval '1 day')`,
  );
  await database.query('VACUUM ANALYZE inbox');
});
afterAll(() => database.drop());

describe('the pending messages of a key', () => {
  const values = [1, 'busy', 1_000];

  it('are the ready and the held ones, in order, and not the scheduled ones', async () => {
    const rows = await database.query<{ id: string }>(PENDING_MESSAGES, values);
    expect(rows.map(({ id }) => id)).toEqual(['held', 'ready']);
  });

  it('are found without reading all stored messages of the key', async () => {
    const explained = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${PENDING_MESSAGES}`;
    const [row] = await database.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
      explained,
      values,
    );
    const { 'Shared Hit Blocks': hit, 'Shared Read Blocks': read } = row!['QUERY PLAN'][0].Plan;
    expect(hit! + read!).toBeLessThan(50);
  });
});
