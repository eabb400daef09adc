import 'reflect-metadata';
import pg from 'pg';
import { service } from '../harness/paths.mjs';
import { CANDIDATES } from '../harness/read-and-post.mjs';
import { countCpu } from '../harness/route.mjs';

/** The read model of the example, with its rows. */
export async function setup({ url }) {
  const [{ migrate }, { schemaOf }] = await Promise.all(['database/migrate.js', 'schema.js'].map(service));
  await migrate(url, await settings({}), schemaOf(await readModels()));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    `INSERT INTO recruitment.candidate (id, name, status, applied_at, changed_at, version)
     SELECT 'c-' || i, 'Ada ' || i, 'applied', now(), now(), 1 FROM generate_series(1, ${CANDIDATES}) AS i`,
  );
  await client.query('VACUUM ANALYZE');
  await client.end();
}

/** One replica that accepts, processes and serves reads until it receives `stop`. */
export async function serve({ url, env = {} }) {
  const [{ createApp }, { createLog }] = await Promise.all(['app.js', 'telemetry/logger.js'].map(service));
  const log = createLog({ logLevel: 'warn', logFormat: 'json' });
  const given = await settings({ DATABASE_URL: url, ROLES: 'api,inbox', ...env });
  const app = await createApp(url, given, log, await readModels());
  const result = await countCpu(await app.listen());
  await app.close();
  return result;
}

async function readModels() {
  return (await service('read-models/read-models.module.js')).READ_MODELS;
}

async function settings(env) {
  const { loadSettings } = await service('config/settings.js');
  return loadSettings({ PORT: '0', HOST: '127.0.0.1', ...env });
}
