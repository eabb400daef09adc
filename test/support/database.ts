import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { withClient } from './client.ts';

export interface TestDatabase {
  readonly url: string;
  /** Runs a statement on a connection of its own, outside of the service. */
  query<Row = Record<string, unknown>>(sql: string, parameters?: unknown[]): Promise<Row[]>;
  drop(): Promise<void>;
}

/** Tests find the tables of read models, and make their own where sessions without read models find them. */
const SEARCH_PATH = '-c search_path=public,recruitment,tested,issuing_checks,outages,campaigns,chain';

interface DatabaseOptions {
  readonly empty?: boolean;
  /** The URL of another server than that of the run; the database is empty. */
  readonly server?: string;
}

/** A database of its own for a test file, cloned from the migrated template (or empty). */
export async function createDatabase(options: DatabaseOptions = {}): Promise<TestDatabase> {
  const { server = process.env.SLUICE_TEST_SERVER!, empty = options.server !== undefined } = options;
  const name = `sluice_test_${randomUUID().replaceAll('-', '')}`;
  const template = empty ? 'template0' : process.env.SLUICE_TEST_TEMPLATE;
  await withClient(server, (client) => client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`));
  const url = urlOf(server, name);
  const pool = new pg.Pool({
    connectionString: url,
    options: SEARCH_PATH,
    max: 4,
    application_name: 'sluice test',
  });
  pool.on('error', () => undefined);
  return {
    url,
    query: async <Row>(sql: string, parameters: unknown[] = []) =>
      (await pool.query(sql, parameters)).rows as Row[],
    async drop() {
      await pool.end();
      await withClient(server, (client) => client.query(`DROP DATABASE ${name} WITH (FORCE)`));
    },
  };
}

export function urlOf(server: string, database: string): string {
  return Object.assign(new URL(server), { pathname: `/${database}` }).href;
}
