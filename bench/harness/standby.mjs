import { copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { postgresCpuSeconds } from './cpu.mjs';
import { service } from './paths.mjs';

/** Not copied: these belong to the running server, or are streamed. */
const NOT_COPIED = new Set(['postmaster.pid', 'postmaster.opts', 'pg_wal', 'pg_replslot', 'pg_stat_tmp']);
const EMPTY = ['pg_wal', 'pg_wal/archive_status', 'pg_wal/summaries', 'pg_replslot', 'pg_stat_tmp'];

/** Copies the running server, as pg_basebackup does, and starts the copy as its standby. */
export async function startStandby({ admin, folder: source, urlOf }, name) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-standby-'));
  const data = join(folder, 'postgres');
  const client = await admin.connect();
  try {
    await client.query(`SELECT pg_backup_start('${name}', true)`);
    await copy(join(source, 'postgres'), data);
    const { rows } = await client.query('SELECT labelfile FROM pg_backup_stop(false)');
    await writeFile(join(data, 'backup_label'), rows[0].labelfile);
  } finally {
    client.release(true);
  }
  for (const left of EMPTY) await mkdir(join(data, left), { mode: 0o700 });
  await copyFile(join(source, 'password'), join(folder, 'password'));
  const { username, password, hostname, port } = new URL(urlOf('postgres'));
  const from = `host=${hostname} port=${port} user=${username} password=${password} application_name=${name}`;
  // Its share of the memory: it has the same data.
  await writeFile(
    join(data, 'postgresql.auto.conf'),
    `shared_buffers = '512MB'\nprimary_conninfo = '${from}'\n`,
  );
  await writeFile(join(data, 'standby.signal'), '');
  const { startEmbeddedPostgres } = await service('database/embedded/embedded-postgres.js');
  const server = await startEmbeddedPostgres({ dataDirectory: folder });
  return {
    host: new URL(server.url).host,
    cpuSeconds: () => postgresCpuSeconds(server.pid),
    async stop() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Files change while they are copied: what is missing or torn is in the WAL. */
async function copy(from, to) {
  await mkdir(to, { mode: 0o700 });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (NOT_COPIED.has(entry.name)) continue;
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    await (entry.isDirectory() ? copy(source, target) : copyFile(source, target)).catch((error) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
}
