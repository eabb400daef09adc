import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { WRITE_DELIVERIES } from './delivery-writer.sql.ts';

const MESSAGES = 256;

let database: TestDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await createDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

const positions = Array.from({ length: MESSAGES }, (_, n) => n + 1);
const messages = [
  positions,
  positions.map((n) => `k-${n}`),
  positions.map(() => false),
  positions.map((n) => n % 256),
  positions.map(() => 't'),
  positions.map(() => 10),
];
const targets = [
  ['t', 't'],
  [1, 2],
  [4, 4],
  [true, true],
];

it('finds the sequence number of each key by index, however many keys there are', async () => {
  const settings = 'SET LOCAL plan_cache_mode = force_generic_plan';
  const { lookedAt } = await rowsFiltered(client, settings, WRITE_DELIVERIES, [...messages, ...targets]);
  expect(lookedAt).toBe(0);
});
