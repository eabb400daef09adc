import type { DynamicModule } from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { Settings } from '../config/settings.ts';
import type { ReadModel } from '../contract/read-model.ts';
import type { Server } from '../http/server.ts';
import type { Log } from '../telemetry/logger.ts';

/** Everything that works on one database, with the HTTP routes on it. */
export interface Engine {
  readonly nest: NestFastifyApplication;
  readonly server: Server;
}

export interface EngineOptions {
  readonly databaseUrl: string;
  readonly settings: Settings;
  readonly log: Log;
  readonly readModels: readonly ReadModel[];
  readonly extensions: readonly DynamicModule[];
}

/** What a cell needs from those that put the service together. */
export interface EngineFactory {
  create(options: Omit<EngineOptions, 'readModels'>): Promise<Engine>;
  /** Brings the schema of a database up to date. */
  prepare(databaseUrl: string, settings: Settings): Promise<void>;
}
