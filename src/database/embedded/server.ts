import { type ChildProcess, spawn } from 'node:child_process';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Cluster, dataArgument } from './cluster.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { choosePort, LOOPBACK, rememberPort } from './port.ts';
import { asAccount, informativeLine } from './run-program.ts';
import { capLog, logSince, sizeOf } from './server-log.ts';
import { shutDown } from './shut-down.ts';

export interface ServerEnd {
  code: number | null;
  signal: string | null;
}

/** A postmaster that accepts connections. */
export interface Server {
  process: ChildProcess;
  port: number;
  ended: Promise<Ended>;
}

type Ended = ServerEnd & { spawnError?: string };
type Settings = Record<string, string>;
type Attempt = { kind: 'ready'; server: Server } | { kind: 'failed'; output: string };

const ATTEMPTS_FOR_PORT = 5;
const LEFTOVER_BACKENDS_MS = 15_000;
const STATUS_LINE = 7;

/** Starts the server; retries if the port was taken meanwhile, or if backends of a killed server are still exiting. */
export async function startServer(
  cluster: Cluster,
  settings: Settings,
  log: (line: string) => void,
  choose = choosePort,
): Promise<Server> {
  const leftoversUntil = performance.now() + LEFTOVER_BACKENDS_MS;
  let takenPort: number | undefined;
  for (let portsTried = 1; ; ) {
    const port = await choose(cluster.layout.port, takenPort);
    const attempt = await attemptStart(cluster, port, settings, log);
    if (attempt.kind === 'ready') {
      await rememberPort(cluster.layout.port, port);
      return attempt.server;
    }
    if (/Address already in use/.test(attempt.output) && portsTried++ < ATTEMPTS_FOR_PORT) takenPort = port;
    else if (
      /shared memory block .* is still in use/.test(attempt.output) &&
      performance.now() < leftoversUntil
    )
      await delay(100);
    else throw startFailure(cluster, attempt.output);
  }
}

export async function stopServer(server: Server): Promise<void> {
  server.process.ref(); // otherwise this process could exit before the server does
  const stopped = await shutDown(
    (name) => server.process.kill(name),
    (withinMs) => endsWithin(server, withinMs),
  );
  if (stopped) return;
  throw new EmbeddedPostgresError(
    `The embedded PostgreSQL (process ${server.process.pid}) does not stop: stop it by hand.`,
  );
}

async function endsWithin(server: Server, withinMs: number): Promise<boolean> {
  const timer = new AbortController();
  const timeout = delay(withinMs, false, { signal: timer.signal }).catch(() => false);
  return Promise.race([server.ended.then(() => true), timeout]).finally(() => timer.abort());
}

async function attemptStart(
  cluster: Cluster,
  port: number,
  settings: Settings,
  log: (line: string) => void,
): Promise<Attempt> {
  const { layout } = cluster;
  await capLog(layout.log);
  const offset = await sizeOf(layout.log);
  const server = await spawnPostmaster(cluster, port, settings);
  if (await ready(server, layout.data, log)) return { kind: 'ready', server };
  const { spawnError } = await server.ended;
  return { kind: 'failed', output: spawnError ?? (await logSince(layout.log, offset)) };
}

/* Detached: Ctrl-C in a terminal signals the whole process group, and the database must run until the service has
   drained. Unreferenced, with its output in a file: it never keeps this process alive. */
async function spawnPostmaster(cluster: Cluster, port: number, settings: Settings): Promise<Server> {
  const { layout, account, binaries } = cluster;
  const logFile = await open(layout.log, 'a', 0o600);
  const child = spawn(
    binaries.postgres,
    ['-D', dataArgument(cluster, layout.data), ...settingArguments(port, settings)],
    { ...asAccount(account, layout.data), detached: true, stdio: ['ignore', logFile.fd, logFile.fd] },
  );
  const ended = new Promise<Ended>((resolve) => {
    if (child.pid === undefined)
      child.once('error', ({ message }) => resolve({ code: null, signal: null, spawnError: message }));
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  child.unref();
  await logFile.close();
  return { process: child, port, ended };
}

/* The fixed settings come last and take precedence: loopback only, no socket files. */
function settingArguments(port: number, settings: Settings): string[] {
  const all = { ...settings, listen_addresses: LOOPBACK, port: String(port), unix_socket_directories: '' };
  return Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/* The postmaster writes its state into postmaster.pid. The wait has no limit: crash recovery can take long, and giving
   up would make it start over at each start. */
async function ready(server: Server, data: string, log: (line: string) => void): Promise<boolean> {
  const alive = () => server.process.exitCode === null && server.process.signalCode === null;
  let logAt = performance.now() + 5_000;
  while (alive()) {
    const lines = (await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');
    if (lines[0] === String(server.process.pid) && lines[STATUS_LINE]?.trim() === 'ready') return true;
    if (performance.now() > logAt) {
      log('PostgreSQL is still starting (crash recovery)');
      logAt += 15_000;
    }
    await delay(10);
  }
  return false;
}

function startFailure(cluster: Cluster, output: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `The embedded PostgreSQL does not start: ${informativeLine(output) ?? 'no output'} ` +
      `(see ${cluster.layout.log}): fix the cause, or set DATABASE_URL.`,
  );
}
