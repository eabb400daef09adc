import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { clientWithSearchPath } from './search-path-client.ts';

let database: TestDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await createDatabase();
  const Client = clientWithSearchPath('recruitment,public') as unknown as typeof pg.Client;
  client = new Client({ connectionString: database.url, pipeline: true } as pg.ClientConfig);
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

const schema = async (...values: unknown[]) =>
  (
    await client.query(
      `SELECT current_schema() AS schema${values.map((_, n) => `, $${n + 1}::text`)}`,
      values,
    )
  ).rows[0]?.schema;

it('finds the tables of read models with every statement, and leaves nothing behind in the session', async () => {
  expect([await schema(), await schema('value'), await schema()]).toEqual(Array(3).fill('recruitment'));
  await expect(client.query('SELECT 1 / 0')).rejects.toThrow('division by zero');
  expect(await schema('value')).toBe('recruitment');
  await client.query('START TRANSACTION');
  expect([await schema(), await schema('value')]).toEqual(Array(2).fill('recruitment'));
  await client.query('COMMIT');
  const session = { text: 'SELECT current_schema() AS schema' };
  expect((await client.query(session)).rows).toEqual([{ schema: 'public' }]);
});
