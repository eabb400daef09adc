import { setTimeout as pause } from 'node:timers/promises';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { refuseCell } from './cells/catalogue-store.ts';
import { Cells } from './cells/cells.ts';
import type { Settings } from './config/settings.ts';
import type { ReadModel } from './contract/read-model.ts';
import { Database } from './database/database.ts';
import { createEngine } from './engine.ts';
import type { Route } from './http/routes.ts';
import type { Server } from './http/server.ts';
import { prepareSchema } from './prepare-schema.ts';
import type { Log } from './telemetry/logger.ts';
import { Readiness } from './upkeep/health/readiness.ts';

export interface App {
  readonly nest: NestFastifyApplication;
  readonly routes: readonly Route[];
  /** Starts to listen; returns the URL. */
  listen(): Promise<string>;
  /** Reports itself as not ready for DRAIN_GRACE, then drains, then closes. */
  close(): Promise<void>;
}

/** One replica on a migrated database: everything except the database server and the handling of signals. */
export async function createApp(
  databaseUrl: string,
  settings: Settings,
  log: Log,
  readModels: readonly ReadModel[],
): Promise<App> {
  const cells = cellsOf(settings, log, readModels);
  const { nest, server } = await createEngine({
    databaseUrl,
    settings: cells?.settingsOfHome ?? settings,
    log,
    readModels,
    extensions: cells ? [cells.homeModule()] : [],
  });
  try {
    if (cells) await cells.openHome({ nest, server });
    else await refuseCell(nest.get(Database));
    await nest.init();
    await cells?.start();
  } catch (error) {
    await cells?.stopKeepers();
    await nest.close();
    await cells?.close();
    throw error;
  }
  return appOf(nest, server, settings, cells);
}

function cellsOf(settings: Settings, log: Log, readModels: readonly ReadModel[]): Cells | undefined {
  if (settings.cells.length === 0) return undefined;
  return new Cells(settings, log, {
    create: (options) => createEngine({ ...options, readModels }),
    prepare: (url, own) => prepareSchema(url, own, log, readModels),
  });
}

function appOf(
  nest: NestFastifyApplication,
  server: Server,
  settings: Settings,
  cells: Cells | undefined,
): App {
  const readiness = nest.get(Readiness);
  return {
    nest,
    routes: server.routes.routes,
    async listen() {
      // For `localhost` Fastify creates a second server for the other IP version, without the guards of `Server`.
      await nest.listen(settings.port, settings.host === 'localhost' ? '127.0.0.1' : settings.host!);
      readiness.setReady();
      return nest.getUrl();
    },
    async close() {
      readiness.startDraining();
      server.closeAfterReply();
      if (settings.drainGrace > 0) await pause(settings.drainGrace);
      await cells?.stopKeepers();
      await nest.close();
      await cells?.close();
    },
  };
}
