import { afterAll, beforeAll } from '@jest/globals';
import pg from 'pg';
import { createDatabase, type TestDatabase } from './database.ts';

/** One database and one session on it, for all tests of a file. */
export function sharedClient(): { readonly database: TestDatabase; readonly client: pg.Client } {
  const database = {} as TestDatabase;
  let session: pg.Client;
  beforeAll(async () => {
    Object.assign(database, await createDatabase());
    session = new pg.Client({ connectionString: database.url });
    await session.connect();
  });
  afterAll(async () => {
    await session.end();
    await database.drop();
  });
  const query = ((...values: Parameters<pg.Client['query']>) =>
    session.query(...values)) as pg.Client['query'];
  return { database, client: { query } as pg.Client };
}
