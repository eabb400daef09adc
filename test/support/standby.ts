import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/database/embedded/embedded-postgres.ts';
import { withClient } from './client.ts';
import { until } from './until.ts';

/** Not copied: these belong to the running server, or are streamed. */
const NOT_COPIED = new Set(['postmaster.pid', 'postmaster.opts', 'pg_wal', 'pg_replslot', 'pg_stat_tmp']);

/** A PostgreSQL server with its own folder. */
export class Server {
  private constructor(
    readonly folder: string,
    private readonly settings: Record<string, string>,
    readonly postgres: EmbeddedPostgres,
  ) {}

  static async start(settings: Record<string, string>): Promise<Server> {
    return Server.startIn(await mkdtemp(join(tmpdir(), 'sluice-server-')), settings);
  }

  static async startIn(folder: string, settings: Record<string, string>): Promise<Server> {
    return new Server(folder, settings, await startEmbeddedPostgres({ dataDirectory: folder, settings }));
  }

  /** Starts a stopped server again. */
  restart(): Promise<Server> {
    return Server.startIn(this.folder, this.settings);
  }

  /** Copies the running server, as pg_basebackup does, and starts the copy as its standby. */
  async startStandby(name: string): Promise<Server> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-standby-'));
    const data = join(folder, 'postgres');
    await withClient(this.postgres.url, async (client) => {
      await client.query(`SELECT pg_backup_start('standby', true)`);
      await copy(join(this.folder, 'postgres'), data);
      const { rows } = await client.query('SELECT labelfile FROM pg_backup_stop(false)');
      await writeFile(join(data, 'backup_label'), rows[0].labelfile);
    });
    for (const left of ['pg_wal', 'pg_wal/archive_status', 'pg_wal/summaries', 'pg_replslot', 'pg_stat_tmp'])
      await mkdir(join(data, left), { mode: 0o700 });
    await copyFile(join(this.folder, 'password'), join(folder, 'password'));
    const { username, password, hostname, port } = new URL(this.postgres.url);
    const conninfo = `host=${hostname} port=${port} user=${username} password=${password} application_name=${name}`;
    await writeFile(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${conninfo}'\n`);
    await writeFile(join(data, 'standby.signal'), '');
    return Server.startIn(folder, this.settings);
  }

  /** Makes every COMMIT wait for the standby of that name, and waits until it streams. */
  async awaitStandby(name: string): Promise<void> {
    await withClient(this.postgres.url, async (client) => {
      await client.query(`ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (${name})'`);
      await client.query('SELECT pg_reload_conf()');
      await until(async () => {
        const { rows } = await client.query(
          `SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming' AND sync_state = 'quorum'`,
          [name],
        );
        return rows.length > 0;
      });
    });
  }

  /** Resolves when the standby accepts writes. */
  async promote(): Promise<void> {
    await withClient(this.postgres.url, async (client) => {
      const { rows } = await client.query('SELECT pg_promote(true, 60) AS promoted');
      if (!rows[0].promoted) throw new Error('the standby was not promoted');
    });
  }

  /** Kills every process of the server, as if its machine were lost: nothing is flushed, no client is notified. */
  async crash(): Promise<void> {
    const { pid } = this.postgres;
    const lines = (await readFile(join(this.folder, 'postgres', 'postmaster.pid'), 'utf8')).split('\n');
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
    for (const one of [pid, ...children.trim().split(' ').filter(Boolean).map(Number)]) {
      try {
        process.kill(one, 'SIGKILL');
      } catch {
        // The process has exited already.
      }
    }
    await this.postgres.exited;
    // A killed server leaves its shared memory segment in the kernel, whose number is limited.
    const segment = lines[6]?.trim().split(/\s+/)[1];
    if (segment) await promisify(execFile)('ipcrm', ['-m', segment]).catch(() => undefined);
  }

  /** Stops the server and removes its files. */
  async remove(): Promise<void> {
    await this.postgres.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Files change while they are copied: what is missing or torn is in the WAL. */
async function copy(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o700 });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (NOT_COPIED.has(entry.name)) continue;
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    await (entry.isDirectory() ? copy(source, target) : copyFile(source, target)).catch((error) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
}
