import { type DynamicModule, Global, Module } from '@nestjs/common';
import { Activity } from './activity.ts';
import { LOG, type Log } from './logger.ts';
import { Metrics } from './metrics.ts';

/** Log and metrics, for everybody. */
@Global()
@Module({})
export class TelemetryModule {
  static with(log: Log): DynamicModule {
    return {
      module: TelemetryModule,
      providers: [{ provide: LOG, useValue: log }, Metrics, Activity],
      exports: [LOG, Metrics, Activity],
    };
  }
}
