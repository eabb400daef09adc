import 'reflect-metadata';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { loadSettings } from '../../src/config/settings.ts';
import { startEmbeddedPostgres } from '../../src/database/embedded/embedded-postgres.ts';
import { migrate } from '../../src/database/migrate.ts';
import { SCHEMA } from '../../src/schema.ts';

/** Starts one server per run and creates the migrated template that every test file clones. */
export default async function globalSetup(): Promise<void> {
  const given = process.env.TEST_DATABASE_URL;
  const server = given ? undefined : await startTemporaryServer();
  const serverUrl = given ?? server!.url;
  const template = `sluice_template_${process.pid}`;
  await onServer(serverUrl, `CREATE DATABASE ${template} ENCODING 'UTF8' TEMPLATE template0`);
  await migrate(withDatabase(serverUrl, template), loadSettings({}), SCHEMA);
  process.env.SLUICE_TEST_SERVER = serverUrl;
  process.env.SLUICE_TEST_TEMPLATE = template;
  Object.assign(globalThis, {
    stopTestServer: async () => {
      await onServer(serverUrl, `DROP DATABASE ${template} WITH (FORCE)`);
      await server?.stop();
    },
  });
}

/** fsync is off: no data outlives the run, and no test is about a power cut. */
function startTemporaryServer() {
  return startEmbeddedPostgres({
    dataDirectory: mkdtempSync(join(tmpdir(), 'sluice-test-')),
    settings: { fsync: 'off', full_page_writes: 'off', max_connections: '300', shared_buffers: '256MB' },
  });
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

function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}
