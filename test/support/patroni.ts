import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { acceptsConnections, freePort } from './free-port.ts';
import { reportSkipped } from './report-skipped.ts';
import { until } from './until.ts';

/** PostgreSQL refuses to run as root. */
const NOBODY = 65_534;
const DEBIAN = '/usr/lib/postgresql';
const START_MS = 120_000;
const PASSWORD = 'patroni';

export function hasPatroni(promise: string): boolean {
  const missing = [
    ...(spawnSync('patroni', ['--version']).status === 0 ? [] : ['patroni']),
    ...(spawnSync('etcd', ['--version']).status === 0 ? [] : ['etcd-server']),
    ...(binaries() ? [] : ['postgresql']),
  ];
  if (missing.length > 0) reportSkipped(promise, `missing: apt-get install ${missing.join(' ')}`);
  return missing.length === 0;
}

/** Of the newest PostgreSQL with pg_rewind, which the embedded one has not. */
function binaries(): string | undefined {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  return versions
    .map((version) => join(DEBIAN, version, 'bin'))
    .find((bin) => existsSync(join(bin, 'pg_rewind')));
}

export interface PatroniMember {
  readonly name: string;
  readonly role: 'leader' | 'replica' | 'sync_standby';
  readonly state: string;
  readonly lag?: number | string;
}

interface Server {
  readonly name: string;
  readonly folder: string;
  readonly port: number;
  readonly restPort: number;
  process: ChildProcess | undefined;
}

/** Three PostgreSQLs under Patroni, with one etcd; every COMMIT waits for a standby. */
export class PatroniCluster {
  private constructor(
    private readonly folder: string,
    private readonly etcd: ChildProcess,
    private readonly servers: readonly Server[],
  ) {}

  static async start(): Promise<PatroniCluster> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-patroni-'));
    giveAway(folder);
    const [etcd, etcdPort] = await startEtcd(folder);
    const servers: Server[] = [];
    for (const name of ['a', 'b', 'c']) {
      const own = join(folder, name);
      mkdirSync(own);
      giveAway(own);
      const server = {
        name,
        folder: own,
        port: await freePort(),
        restPort: await freePort(),
        process: undefined,
      };
      await writeFile(join(own, 'patroni.json'), JSON.stringify(configuration(server, etcdPort)));
      servers.push(server);
    }
    const cluster = new PatroniCluster(folder, etcd, servers);
    for (const { name } of servers) {
      cluster.startMember(name);
      // The first one makes the database; the others copy it.
      await until(
        async () => (await cluster.members()).some((one) => one.name === name && isUp(one)),
        START_MS,
      );
    }
    await cluster.isWhole();
    return cluster;
  }

  /** As an operator names them. */
  get url(): string {
    const hosts = this.servers.map(({ port }) => `127.0.0.1:${port}`);
    return `postgres://postgres:${PASSWORD}@${hosts.join(',')}/postgres?target_session_attrs=read-write`;
  }

  urlOf(name: string): string {
    return `postgres://postgres:${PASSWORD}@127.0.0.1:${this.server(name).port}/postgres`;
  }

  portOf(name: string): number {
    return this.server(name).port;
  }

  logOf(name: string): string {
    return readFileSync(join(this.server(name).folder, 'log'), 'utf8');
  }

  /** As one of the managers sees them; empty while none replies. */
  async members(): Promise<readonly PatroniMember[]> {
    for (const { restPort, process } of this.servers) {
      if (!process) continue;
      const response = await fetch(`http://127.0.0.1:${restPort}/cluster`).catch(() => undefined);
      if (response?.ok) return ((await response.json()) as { members: PatroniMember[] }).members;
    }
    return [];
  }

  /** Resolves with the name of the leader when the two others stream from it, and commits wait for one of them. */
  async isWhole(): Promise<string> {
    const leader = await until(async () => {
      const members = await this.members();
      const whole =
        members.length === 3 && members.every(isUp) && members.some(({ role }) => role === 'sync_standby');
      return whole ? members.find(({ role }) => role === 'leader')?.name : undefined;
    }, START_MS);
    return leader!;
  }

  startMember(name: string): void {
    const server = this.server(name);
    const log = openSync(join(server.folder, 'log'), 'a');
    server.process = spawn('patroni', [join(server.folder, 'patroni.json')], {
      stdio: ['ignore', log, log],
      env: { PATH: process.env.PATH, HOME: server.folder, LC_ALL: 'C' },
      ...asNobody(),
    });
  }

  /** Kills the server and its manager, as if the machine were lost: nothing is flushed, nobody is notified. */
  async loseMachine(name: string): Promise<void> {
    const server = this.server(name);
    const ended = once(server.process!, 'exit');
    server.process!.kill('SIGKILL');
    this.crash(name);
    await ended;
    server.process = undefined;
  }

  /** Kills the processes of the server; its manager sees it. */
  crash(name: string): void {
    const { folder } = this.server(name);
    const postmaster = Number(readFileSync(join(folder, 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
    const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8')
      .trim()
      .split(' ');
    for (const pid of [postmaster, ...children.filter(Boolean).map(Number)]) kill(pid, 'SIGKILL');
  }

  async stop(): Promise<void> {
    for (const { process } of this.servers) await ended(process);
    await ended(this.etcd);
    rmSync(this.folder, { recursive: true, force: true });
  }

  private server(name: string): Server {
    return this.servers.find((one) => one.name === name)!;
  }
}

function isUp({ role, state }: PatroniMember): boolean {
  return role === 'leader' ? state === 'running' : state === 'running' || state === 'streaming';
}

async function startEtcd(folder: string): Promise<[ChildProcess, number]> {
  const [client, peer] = [await freePort(), await freePort()].map((port) => `http://127.0.0.1:${port}`);
  const options = {
    'data-dir': join(folder, 'etcd'),
    'listen-client-urls': client,
    'advertise-client-urls': client,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': `default=${peer}`,
  };
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value!]);
  const etcd = spawn('etcd', flags, { stdio: 'ignore', ...asNobody() });
  const port = Number(new URL(client!).port);
  await until(() => acceptsConnections(port), START_MS);
  return [etcd, port];
}

/** `ttl` has the smallest value that Patroni accepts. */
function configuration({ name, folder, port, restPort }: Server, etcdPort: number) {
  const dcs = {
    ttl: 20,
    loop_wait: 1,
    retry_timeout: 3,
    master_start_timeout: 0,
    synchronous_mode: true,
    synchronous_mode_strict: true,
    postgresql: {
      use_pg_rewind: true,
      parameters: {
        max_connections: 100,
        wal_log_hints: 'on',
        wal_keep_size: '256MB',
        wal_retrieve_retry_interval: '500ms',
        fsync: 'off',
      },
    },
  };
  const everyone = [
    'host all all 127.0.0.1/32 md5',
    'host replication all 127.0.0.1/32 md5',
    'local all all trust',
  ];
  return {
    scope: 'sluice',
    name,
    restapi: { listen: `127.0.0.1:${restPort}`, connect_address: `127.0.0.1:${restPort}` },
    etcd3: { host: `127.0.0.1:${etcdPort}` },
    bootstrap: { dcs, initdb: [{ encoding: 'UTF8' }, { locale: 'C' }], pg_hba: everyone },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      data_dir: join(folder, 'data'),
      bin_dir: binaries(),
      pgpass: join(folder, 'pgpass'),
      pg_hba: everyone,
      parameters: { unix_socket_directories: folder },
      authentication: {
        superuser: { username: 'postgres', password: PASSWORD },
        replication: { username: 'replicator', password: PASSWORD },
      },
    },
  };
}

function asNobody() {
  return process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
}

function giveAway(path: string): void {
  if (process.getuid?.() === 0) chownSync(path, NOBODY, NOBODY);
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended already.
  }
}

async function ended(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}
