import { NestFactory } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { AppModule } from './app.module.ts';
import type { Engine, EngineOptions } from './cells/engine.ts';
import { HttpMetrics } from './http/http-metrics.ts';
import { OpenApi } from './http/openapi.ts';
import { ProblemFilter } from './http/problem-filter.ts';
import { ResponsesInFlight } from './http/responses-in-flight.ts';
import { Server } from './http/server.ts';
import { Callers } from './http/session/callers.ts';
import { NestLog } from './telemetry/nest-log.ts';

/** Not initialised yet: nothing runs, and nothing was read from the database. */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const { databaseUrl, settings, log, readModels, extensions } = options;
  const server = new Server(settings, log);
  const nest = await NestFactory.create<NestFastifyApplication>(
    AppModule.with(databaseUrl, settings, log, readModels, extensions),
    server.adapter,
    { logger: new NestLog(log), bodyParser: false, abortOnError: false, forceCloseConnections: false },
  );
  nest.useGlobalFilters(new ProblemFilter(server));
  server.authenticateWith(nest.get(Callers));
  server.measureWith(nest.get(HttpMetrics));
  server.limitResponsesWith(nest.get(ResponsesInFlight));
  nest.get(OpenApi).describe(nest);
  return { nest, server };
}
