import { type DynamicModule, Global, Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import type { Settings } from '../config/settings.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { dataSourceOptions, type SchemaPart, schemasOf } from './data-source-options.ts';
import { Database } from './database.ts';
import { DatabaseMetrics } from './database-metrics.ts';
import { Reads } from './reads.ts';

/** The engine's Database and TypeORM's DataSource: the same server, a separate pool each. */
@Global()
@Module({})
export class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(Database) private readonly database: Database) {}

  static with(url: string, settings: Settings, parts: readonly SchemaPart[]): DynamicModule {
    return {
      module: DatabaseModule,
      imports: [TypeOrmModule.forRoot({ ...dataSourceOptions(url, settings, parts), retryAttempts: 0 })],
      providers: [
        Reads,
        DatabaseMetrics,
        {
          provide: Database,
          inject: [DataSource, LOG],
          useFactory: (dataSource: DataSource, log: Log) =>
            new Database(
              url,
              settings,
              dataSource,
              (error) =>
                log.warn({ event: 'database.connection-lost', error }, 'an idle connection was lost'),
              schemasOf(parts),
            ),
        },
      ],
      exports: [Database, Reads],
    };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.database.close();
  }
}
