import { resolve } from 'node:path';
import { type App, createApp } from './app.ts';
import type { Settings } from './config/settings.ts';
import type { ReadModel } from './contract/read-model.ts';
import { firstServerOf } from './database/connection.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from './database/embedded/embedded-postgres.ts';
import { addressesOf, checkServer } from './database/server-check.ts';
import { prepareSchema } from './prepare-schema.ts';
import type { Log } from './telemetry/logger.ts';

export interface Service {
  readonly url: string;
  /** Version and address of the database for the banner, never the password. */
  readonly database: string;
  /** Resolves when the embedded PostgreSQL stops unexpectedly; undefined without one. */
  readonly databaseLost: Promise<unknown> | undefined;
  stop(): Promise<void>;
}

/** Starts database, migrations and application, in this order; on a failure stops what was started before. */
export async function startService(
  settings: Settings,
  log: Log,
  readModels: readonly ReadModel[],
): Promise<Service> {
  const embedded = settings.databaseUrl ? undefined : await startEmbedded(settings, log);
  // An exit without stop() (a second signal, a drain that takes too long) would leave PostgreSQL running for ever.
  process.once('exit', () => embedded?.requestStop());
  let app: App | undefined;
  try {
    const databaseUrl = settings.databaseUrl ?? embedded!.url;
    const version = await checkServer(databaseUrl, settings.databaseConnectTimeout);
    await prepareSchema(databaseUrl, settings, log, readModels);
    app = await createApp(databaseUrl, settings, log, readModels);
    const url = await app.listen();
    log.info({ event: 'service.started', url, roles: settings.roles, postgres: version }, 'serving');
    return {
      url,
      database: `PostgreSQL ${version}, ${embedded ? `embedded in ${settings.dataDirectory}/` : hostOf(databaseUrl)}`,
      databaseLost: embedded?.exited,
      stop: () => stop(app, embedded, log),
    };
  } catch (error) {
    await stop(app, embedded, log);
    throw error;
  }
}

function startEmbedded(settings: Settings, log: Log): Promise<EmbeddedPostgres> {
  return startEmbeddedPostgres({
    dataDirectory: resolve(settings.dataDirectory),
    log: (line) => log.debug({ event: 'database.embedded' }, line),
  });
}

/** Stops the application first: work in flight still needs the database. */
async function stop(app: App | undefined, embedded: EmbeddedPostgres | undefined, log: Log): Promise<void> {
  try {
    await app?.close();
  } finally {
    await embedded?.stop();
  }
  log.info({ event: 'service.stopped' }, 'stopped');
}

function hostOf(url: string): string {
  return `${addressesOf(url)}${new URL(firstServerOf(url)).pathname}`;
}
