import { execFileSync } from 'node:child_process';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/database/embedded/embedded-postgres.ts';

/** Room for the data of a run; what is left of it can be filled in a moment. */
const DISK_MEGABYTES = 3_000;
const SETTINGS = {
  max_connections: '200',
  shared_buffers: '128MB',
  max_wal_size: '512MB',
  wal_recycle: 'off',
  min_wal_size: '64MB',
};

/** A PostgreSQL of our own that can be stopped in every way, on a small disk of its own where that can be had. */
export class Postgres {
  private constructor(
    private readonly folder: string,
    /** Why the disk cannot be filled; undefined: it can. */
    readonly noSmallDisk: string | undefined,
    private server: EmbeddedPostgres,
  ) {}

  static async start({ smallDisk }: { smallDisk: boolean }): Promise<Postgres> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-chaos-data-'));
    const noSmallDisk = smallDisk ? mountSmallDisk(folder) : 'not asked for';
    return new Postgres(folder, noSmallDisk, await startOn(folder));
  }

  get url(): string {
    return this.server.url;
  }

  /** Fast: sessions are ended, a checkpoint is written. Immediate: as if the power was cut; the next start recovers. */
  async restart(how: 'fast' | 'immediate'): Promise<void> {
    const { port } = this.server;
    if (how === 'immediate') {
      process.kill(this.server.pid, 'SIGQUIT');
      await this.server.exited;
    }
    await this.startAgain(port);
  }

  /** After it has ended by itself. */
  async ensureRunning(): Promise<void> {
    const ended = await Promise.race([this.server.exited.then(() => true), later(false)]);
    if (ended) await this.startAgain(this.server.port);
  }

  /** Nothing more can be written until `freeDisk`. */
  fillDisk(): void {
    const { bavail, bsize } = statfsSync(this.folder);
    const block = Buffer.alloc(1 << 20);
    try {
      for (let left = bavail * bsize; left >= 0; left -= block.length) {
        writeFileSync(join(this.folder, 'ballast'), block, { flag: 'a' });
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }

  freeDisk(): void {
    rmSync(join(this.folder, 'ballast'), { force: true });
  }

  async createDatabase(name: string): Promise<string> {
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    await client.query(`CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`);
    await client.end();
    return Object.assign(new URL(this.url), { pathname: `/${name}` }).href;
  }

  async stop(): Promise<void> {
    await this.server.stop();
    if (this.noSmallDisk === undefined) execFileSync('umount', [this.folder]);
    await rm(this.folder, { recursive: true, force: true });
  }

  /** On the port it had: everybody has its address. */
  private async startAgain(port: number): Promise<void> {
    await this.server.stop();
    this.server = await startOn(this.folder);
    if (this.server.port !== port) throw new Error(`PostgreSQL came back on another port than ${port}`);
  }
}

function startOn(folder: string): Promise<EmbeddedPostgres> {
  return startEmbeddedPostgres({ dataDirectory: folder, settings: SETTINGS });
}

function mountSmallDisk(folder: string): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'a small disk needs root on Linux';
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MEGABYTES}m`, 'tmpfs', folder], {
      stdio: 'pipe',
    });
    return undefined;
  } catch (error) {
    return `no small disk could be mounted: ${(error as Error).message.split('\n')[0]}`;
  }
}

function later<T>(value: T): Promise<T> {
  return new Promise((resolve) => setTimeout(resolve, 50, value));
}
