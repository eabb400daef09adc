import { ownData } from './account.ts';
import { clusterOn } from './cluster.ts';
import { holdsData, prepareDataDirectory, unusable } from './data-directory.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { DATABASE, initialise, removeHalfMade } from './initialise.ts';
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
  /** Gets what a person may want to know, line by line. */
  log?: (line: string) => void;
}

export interface EmbeddedPostgres {
  /** postgres://user:password@127.0.0.1:port/sluice */
  url: string;
  port: number;
  pid: number;
  /** Stops the server and gives the data folder back; resolves when it is gone. May be called again. */
  stop(): Promise<void>;
  /** Signals the server to stop and waits for nothing: for when this process exits. */
  requestStop(): void;
  /** Resolves when the server ends unasked; after `stop()` it stays pending. */
  exited: Promise<ServerEnd>;
}

/**
 * Starts the real PostgreSQL that npm installed, on `dataDirectory`. What keeps it from running is thrown as
 * an EmbeddedPostgresError. It hooks into no signal and no exit: call `stop()` after everything else.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { settings = {}, log = () => {} } = options;
  const layout = await prepareDataDirectory(options.dataDirectory);
  const release = await claimOwnership(layout.root);
  try {
    await removeHalfMade(layout.root);
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
