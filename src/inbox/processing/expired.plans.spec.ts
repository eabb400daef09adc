import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import { EXPIRED, EXPIRED_SCHEDULED } from './expired.sql.ts';

let database: TestDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await createDatabase();
  await database.query(`
    INSERT INTO inbox (id, source, type, key, lane, payload, status, waits, due_at, expires_at)
    SELECT n::text, 's', 't', 'k', n % 256, 'null', CASE WHEN n % 2 = 0 THEN 'scheduled' ELSE 'held' END,
           CASE WHEN n % 2 = 0 THEN 'due' ELSE 'held' END, now() + interval '1 day',
           now() + CASE WHEN n % 2000 < 2 THEN interval '-1 s' ELSE interval '2 days' END
    FROM generate_series(1, 20000) AS n`);
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

describe.each(['never analysed', 'analysed'])('on a table that was %s', (state) => {
  beforeAll(async () => {
    if (state === 'analysed') await database.query('ANALYZE inbox');
  });

  it.each([
    ['behind a hold', EXPIRED],
    ['before its dueAt', EXPIRED_SCHEDULED],
  ])('looking for what expired %s reads nothing else that waits', async (_where, sql) => {
    expect(await rowsFiltered(client, FORCE_INDEX_PLANS, sql, [1_000])).toEqual({ lookedAt: 0, left: 10 });
  });
});
