import { setTimeout as pause } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { AppModule } from './app.module.ts';
import type { Settings } from './config/settings.ts';
import type { ReadModel } from './contract/read-model.ts';
import { HttpMetrics } from './http/http-metrics.ts';
import { OpenApi } from './http/openapi.ts';
import { ProblemFilter } from './http/problem-filter.ts';
import { ResponsesInFlight } from './http/responses-in-flight.ts';
import type { Route } from './http/routes.ts';
import { Server } from './http/server.ts';
import { Callers } from './http/session/callers.ts';
import type { Log } from './telemetry/logger.ts';
import { NestLog } from './telemetry/nest-log.ts';
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
  const server = new Server(settings, log);
  const nest = await NestFactory.create<NestFastifyApplication>(
    AppModule.with(databaseUrl, settings, log, readModels),
    server.adapter,
    { logger: new NestLog(log), bodyParser: false, abortOnError: false, forceCloseConnections: false },
  );
  nest.useGlobalFilters(new ProblemFilter(server));
  server.authenticateWith(nest.get(Callers));
  server.measureWith(nest.get(HttpMetrics));
  server.limitResponsesWith(nest.get(ResponsesInFlight));
  nest.get(OpenApi).describe(nest);
  try {
    await nest.init();
  } catch (error) {
    await nest.close();
    throw error;
  }
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
      await nest.close();
    },
  };
}
