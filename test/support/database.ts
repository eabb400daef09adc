import { randomUUID } from 'node:crypto';
import pg from 'pg';

export interface TestDatabase {
  readonly url: string;
  /** Runs a statement on a connection of its own, outside of the service. */
  query<Row = Record<string, unknown>>(sql: string, parameters?: unknown[]): Promise<Row[]>;
  drop(): Promise<void>;
}

/** A database of its own for a test file, cloned from the migrated template (or empty). */
export async function createDatabase(options: { empty?: boolean } = {}): Promise<TestDatabase> {
  const server = process.env.SLUICE_TEST_SERVER!;
  const name = `sluice_test_${randomUUID().replaceAll('-', '')}`;
  const template = options.empty ? 'template0' : process.env.SLUICE_TEST_TEMPLATE;
  await onServer(server, `CREATE DATABASE ${name} TEMPLATE ${template}`);
  const changed = new URL(server);
  changed.pathname = `/${name}`;
  const pool = new pg.Pool({ connectionString: changed.href, max: 4, application_name: 'sluice test' });
  pool.on('error', () => undefined);
  return {
    url: changed.href,
    query: async <Row>(sql: string, parameters: unknown[] = []) =>
      (await pool.query(sql, parameters)).rows as Row[],
    async drop() {
      await pool.end();
      await onServer(server, `DROP DATABASE ${name} WITH (FORCE)`);
    },
  };
}

async function onServer(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
