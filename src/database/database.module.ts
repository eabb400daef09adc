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
          useFactory: (dataSource: DataSource, log: Log) => {
            const onIdleError = (error: Error) =>
              log.warn({ event: 'database.connection-lost', error }, 'an idle connection was lost');
            const database = new Database(url, settings, dataSource, onIdleError, schemasOf(parts));
            database.primary?.on('moved', (from, to) =>
              log.warn({ event: 'database.primary-moved', from, to }, 'another server is the primary now'),
            );
            return database;
          },
        },
      ],
      exports: [Database, Reads],
    };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.database.close();
  }
}
