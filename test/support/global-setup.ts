import 'reflect-metadata';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadSettings } from '../../src/config/settings.ts';
import { startEmbeddedPostgres } from '../../src/database/embedded/embedded-postgres.ts';
import { migrate } from '../../src/database/migrate.ts';
import { withClient } from './client.ts';
import { urlOf } from './database.ts';
import { SCHEMA } from './schema.ts';

/** Starts one server per run and creates the migrated template that every test file clones. */
export default async function globalSetup(): Promise<void> {
  const given = process.env.TEST_DATABASE_URL;
  const server = given ? undefined : await startTemporaryServer();
  const serverUrl = given ?? server!.url;
  const template = `sluice_template_${process.pid}`;
  await withClient(serverUrl, (client) =>
    client.query(`CREATE DATABASE ${template} ENCODING 'UTF8' TEMPLATE template0`),
  );
  await migrate(urlOf(serverUrl, template), loadSettings({}), SCHEMA);
  process.env.SLUICE_TEST_SERVER = serverUrl;
  // For the test kit of read models.
  process.env.TEST_DATABASE_URL = serverUrl;
  process.env.SLUICE_TEST_TEMPLATE = template;
  Object.assign(globalThis, {
    stopTestServer: async () => {
      await withClient(serverUrl, (client) => client.query(`DROP DATABASE ${template} WITH (FORCE)`));
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
