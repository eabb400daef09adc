import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { postgresCpuSeconds } from './cpu.mjs';
import { service } from './paths.mjs';

/** PostgreSQL's default of 128 MB is for a machine with other work; a database server has some GB. */
const MEMORY = `ALTER SYSTEM SET shared_buffers = '2GB'`;
/** Eight replicas have two pools each; the default of 100 was used up. */
const CONNECTIONS = 'ALTER SYSTEM SET max_connections = 300';

/**
 * The PostgreSQL server for all contenders: the embedded one with its own settings and more memory, so fsync and
 * synchronous_commit are on; a data folder of its own that is removed afterwards. Databases are cloned from seeded templates,
 * so that every round starts with the same files.
 */
export async function startServer() {
  const { startEmbeddedPostgres } = await service('database/embedded/embedded-postgres.js');
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const first = await startEmbeddedPostgres({ dataDirectory: folder });
  await execute(first.url, MEMORY);
  await execute(first.url, CONNECTIONS);
  await first.stop();
  const server = await startEmbeddedPostgres({ dataDirectory: folder });
  const admin = new pg.Pool({ connectionString: server.url, max: 2 });
  admin.on('error', () => undefined);
  let stopping;
  const stop = async () => {
    await admin.end();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
  const urlOf = (name) => Object.assign(new URL(server.url), { pathname: `/${name}` }).href;
  return {
    admin,
    folder,
    urlOf,
    cpuSeconds: () => postgresCpuSeconds(server.pid),
    version: async () => (await admin.query('SHOW server_version')).rows[0].server_version,
    /** An empty database; replaces an older one of that name. */
    async create(name, template = 'template0') {
      await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      await admin.query(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY FILE_COPY`);
      return urlOf(name);
    },
    drop: (name) => admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
    /** Forces a checkpoint: one that happens in the round of only one contender would decide the comparison. */
    settle: () => admin.query('CHECKPOINT'),
    /** Idempotent: both a signal and the end of the run call it. */
    stop: () => (stopping ??= stop()),
  };
}

async function execute(connectionString, sql) {
  const client = new pg.Client({ connectionString });
  await client.connect();
  await client.query(sql);
  await client.end();
}
