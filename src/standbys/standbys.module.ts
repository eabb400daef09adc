import { type DynamicModule, Global, Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Loops } from '../clock/loops.ts';
import type { Settings } from '../config/settings.ts';
import { Database } from '../database/database.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Standbys } from './standbys.ts';

/** Reads from the standbys of READ_DATABASE_URL. */
@Global()
@Module({})
export class StandbysModule implements OnApplicationShutdown {
  constructor(@Inject(Standbys) private readonly standbys: Standbys) {}

  /** `schemas`: of the read models. */
  static with(settings: Settings, schemas: readonly string[]): DynamicModule {
    return {
      module: StandbysModule,
      providers: [
        {
          provide: Standbys,
          inject: [Database, LOG, Loops, Metrics],
          useFactory: (database: Database, log: Log, loops: Loops, metrics: Metrics) =>
            new Standbys(settings, schemas, { database, log, loops, metrics }),
        },
      ],
      exports: [Standbys],
    };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.standbys.close();
  }
}
