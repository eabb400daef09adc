import { execFileSync } from 'node:child_process';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { withClient } from '../test/support/client.ts';
import { urlOf } from '../test/support/database.ts';
import { Server } from '../test/support/standby.ts';

/** Enough for the data of a run, and small enough to be filled quickly. */
const DISK_MEGABYTES = 3_000;
const SETTINGS = {
  max_connections: '200',
  shared_buffers: '128MB',
  max_wal_size: '512MB',
  wal_recycle: 'off',
  min_wal_size: '64MB',
};

const STANDBY_SETTINGS = { ...SETTINGS, wal_keep_size: '1GB' };

interface SmallDisk {
  /** Why the disk cannot be filled; undefined: it can. */
  readonly noSmallDisk: string | undefined;
  readonly disk: string;
}

/**
 * A PostgreSQL server that can be stopped in every way; on a small disk of its own where one can be mounted, and with a
 * synchronous standby, if these are requested.
 */
export class Postgres {
  /** Called with the URL of the new primary after a failover. */
  onMoved: (url: string) => void = () => undefined;
  private standby: Server | undefined;
  private standbys = 0;

  private constructor(
    private readonly found: SmallDisk,
    private primary: Server,
  ) {}

  static async start({ smallDisk, standby = false }: { smallDisk: boolean; standby?: boolean }) {
    const disk = await mkdtemp(join(tmpdir(), 'sluice-chaos-data-'));
    const noSmallDisk = smallDisk ? mountSmallDisk(disk) : 'not requested';
    const folder = join(disk, 'server');
    const primary = await Server.startIn(folder, standby ? STANDBY_SETTINGS : SETTINGS);
    const postgres = new Postgres({ noSmallDisk, disk }, primary);
    if (standby) await postgres.addStandby();
    return postgres;
  }

  get url(): string {
    return this.primary.postgres.url;
  }

  get noSmallDisk(): string | undefined {
    return this.found.noSmallDisk;
  }

  /** Fast: sessions are terminated, a checkpoint is written. Immediate: like a power cut; the next start recovers from the WAL. */
  async restart(how: 'fast' | 'immediate'): Promise<void> {
    const { port, pid, exited } = this.primary.postgres;
    if (how === 'immediate') {
      process.kill(pid, 'SIGQUIT');
      await exited;
    }
    await this.startAgain(port);
  }

  /** The primary and its data are lost at once, and its standby takes over. */
  async failOver(): Promise<void> {
    const gone = this.primary;
    await gone.crash();
    await this.standby!.promote();
    this.primary = this.standby!;
    this.standby = undefined;
    this.onMoved(this.url);
    await gone.remove();
  }

  /** Adds a standby; from then on commits wait for it. */
  async addStandby(): Promise<void> {
    this.standbys += 1;
    const name = `standby_${this.standbys}`;
    this.standby = await this.primary.startStandby(name);
    await this.primary.awaitStandby(name);
  }

  /** Restarts the server if it has exited. */
  async ensureRunning(): Promise<void> {
    const { exited, port } = this.primary.postgres;
    const ended = await Promise.race([exited.then(() => true), later(false)]);
    if (ended) await this.startAgain(port);
  }

  /** Every write fails until `freeDisk`. */
  fillDisk(): void {
    // After a failover the data is on another disk.
    if (!this.primary.folder.startsWith(this.found.disk)) return;
    const { bavail, bsize } = statfsSync(this.found.disk);
    const block = Buffer.alloc(1 << 20);
    try {
      for (let left = bavail * bsize; left >= 0; left -= block.length) {
        writeFileSync(join(this.found.disk, 'ballast'), block, { flag: 'a' });
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }

  freeDisk(): void {
    rmSync(join(this.found.disk, 'ballast'), { force: true });
  }

  async createDatabase(name: string): Promise<string> {
    await withClient(this.url, (client) =>
      client.query(`CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`),
    );
    return urlOf(this.url, name);
  }

  async stop(): Promise<void> {
    for (const server of [this.standby, this.primary]) if (server) await server.remove();
    if (this.noSmallDisk === undefined) execFileSync('umount', [this.found.disk]);
    await rm(this.found.disk, { recursive: true, force: true });
  }

  /** On the same port: the replicas have its address. */
  private async startAgain(port: number): Promise<void> {
    await this.primary.postgres.stop();
    this.primary = await this.primary.restart();
    if (this.primary.postgres.port !== port)
      throw new Error(`PostgreSQL came back on another port than ${port}`);
  }
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
