import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { startEmbeddedPostgres } from '../database/embedded/embedded-postgres.ts';
import { EmbeddedPostgresError } from '../database/embedded/embedded-postgres-error.ts';

/** An empty database for one spec. */
export interface SpecDatabase {
  readonly url: string;
  close(): Promise<void>;
}

/** On the server of TEST_DATABASE_URL, else on an embedded PostgreSQL that is started for it. */
export async function openSpecDatabase(): Promise<SpecDatabase> {
  const server = process.env.TEST_DATABASE_URL;
  return server ? createOn(server) : startServer();
}

async function createOn(server: string): Promise<SpecDatabase> {
  const name = `sluice_spec_${randomUUID().replaceAll('-', '')}`;
  await run(server, `CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`);
  return {
    url: Object.assign(new URL(server), { pathname: `/${name}` }).href,
    close: () => run(server, `DROP DATABASE ${name} WITH (FORCE)`),
  };
}

async function run(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, application_name: 'sluice spec' });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

/** fsync is off: nothing of it outlives the spec. */
async function startServer(): Promise<SpecDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-spec-'));
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  try {
    const server = await startEmbeddedPostgres({
      dataDirectory: folder,
      settings: { fsync: 'off', full_page_writes: 'off' },
    });
    // A runner that ends without its hooks, for example by process.exit, would leave it running for ever.
    process.once('exit', () => server.requestStop());
    return { url: server.url, close: () => server.stop().finally(remove) };
  } catch (error) {
    remove();
    if (!(error instanceof EmbeddedPostgresError)) throw error;
    throw new Error(
      `${error.message} For specs that is TEST_DATABASE_URL, with a role that may create databases.`,
    );
  }
}
