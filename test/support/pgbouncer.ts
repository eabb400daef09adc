import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { acceptsConnections, freePort } from './free-port.ts';
import { until } from './until.ts';

/** The user to run as: PgBouncer refuses to run as root. */
const NOBODY = 65_534;

/** PgBouncer is a system package that may not be installed. */
export function hasPgBouncer(): boolean {
  const there = spawnSync('pgbouncer', ['--version']).status === 0;
  if (!there)
    process.stderr.write('\nNOT TESTED: PgBouncer. It is not on the PATH (apt-get install pgbouncer).\n\n');
  return there;
}

export interface PgBouncer {
  /** The database's URL, through the pooler. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A pooler in transaction mode that opens fewer connections to the server than clients open to it. */
export async function startPgBouncer(databaseUrl: string, connections: number): Promise<PgBouncer> {
  const { hostname, port, username, password } = new URL(databaseUrl);
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pgbouncer-'));
  const file = join(folder, 'pgbouncer.ini');
  const listenPort = await freePort();
  const secret = password === '' ? '' : ` password=${decodeURIComponent(password)}`;
  const server = `host=${hostname} port=${port || 5432} user=${username}${secret}`;
  writeFileSync(
    file,
    `[databases]\n* = ${server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${listenPort}\nunix_socket_dir =\n` +
      `auth_type = any\npool_mode = transaction\ndefault_pool_size = ${connections}\nmax_client_conn = 200\n`,
  );
  const isRoot = process.getuid?.() === 0;
  if (isRoot) for (const path of [folder, file]) chownSync(path, NOBODY, NOBODY);
  chmodSync(file, 0o600);
  const child = spawn('pgbouncer', [file], {
    stdio: 'ignore',
    ...(isRoot ? { uid: NOBODY, gid: NOBODY } : {}),
  });
  const ended = once(child, 'close');
  await until(() => acceptsConnections(listenPort));
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String(listenPort);
  return {
    url: url.href,
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}
