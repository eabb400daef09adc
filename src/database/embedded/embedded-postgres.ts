import { ownData } from './account.ts';
import { clusterOn } from './cluster.ts';
import { holdsData, prepareDataDirectory, unusable } from './data-directory.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { DATABASE, initialise, removeUnfinished } from './initialise.ts';
import type { Layout } from './layout.ts';
import { stopOrphan } from './orphan.ts';
import { claimOwnership } from './owner.ts';
import { ROLE, readPassword, replacePassword } from './password.ts';
import { LOOPBACK } from './port.ts';
import { type Server, type ServerEnd, startServer, stopServer } from './server.ts';
import { keepLogCapped } from './server-log.ts';

export { EmbeddedPostgresError };

export interface EmbeddedPostgresOptions {
  /** Holds everything: the data (`postgres/`), the password, the log. */
  dataDirectory: string;
  /** Extra server settings, e.g. `{ fsync: 'off' }`; without them what is committed survives a power cut. */
  settings?: Record<string, string>;
  /** Receives log lines. */
  log?: (line: string) => void;
}

export interface EmbeddedPostgres {
  /** postgres://user:password@127.0.0.1:port/sluice */
  url: string;
  port: number;
  pid: number;
  /** Stops the server and releases the data folder; resolves when the server has exited. May be called again. */
  stop(): Promise<void>;
  /** Signals the server to stop without waiting: for an exit handler of this process. */
  requestStop(): void;
  /** Resolves when the server stops unexpectedly; after `stop()` it stays pending. */
  exited: Promise<ServerEnd>;
}

/**
 * Starts the PostgreSQL server that npm installed, on `dataDirectory`. Failures are thrown as EmbeddedPostgresError. It
 * registers no signal handler and no exit hook: call `stop()` after everything else has stopped.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { settings = {}, log = () => {} } = options;
  const layout = await prepareDataDirectory(options.dataDirectory);
  const release = await claimOwnership(layout.root);
  try {
    await removeUnfinished(layout.root);
    const cluster = await clusterOn(layout);
    const held = await holdsData(layout, cluster.binaries.major);
    await stopOrphan(layout.data, log);
    if (held) await ownData(cluster.account, layout.data);
    else await initialise(cluster, settings.fsync !== 'off', log);
    const password = (await readPassword(cluster)) ?? (await replacePassword(cluster));
    const server = await startServer(cluster, settings, log);
    return handleOf(server, password, layout, release);
  } catch (error) {
    await release();
    throw error instanceof EmbeddedPostgresError ? error : unusable(layout.root, error);
  }
}

function handleOf(
  server: Server,
  password: string,
  layout: Layout,
  release: () => Promise<void>,
): EmbeddedPostgres {
  const endCapping = keepLogCapped(layout.log);
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    endCapping();
    await stopServer(server);
    await release();
  };
  return {
    url: `postgres://${ROLE}:${password}@${LOOPBACK}:${server.port}/${DATABASE}`,
    port: server.port,
    pid: server.process.pid!,
    stop: () => (stopping ??= stop()),
    requestStop: () => void server.process.kill('SIGINT'),
    exited: new Promise((resolve) => {
      void server.ended.then(({ code, signal }) => stopping ?? resolve({ code, signal }));
    }),
  };
}
