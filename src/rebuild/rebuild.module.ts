import { type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import type { ReadModel } from '../contract/read-model.ts';
import { Build, DATABASE_URL } from './build.ts';
import { Differ } from './diff.ts';
import { Drain } from './drain.ts';
import { HistorySource } from './history-source.ts';
import { LaneSource } from './lane-source.ts';
import { ModelVersions } from './model-versions.ts';
import { Pages } from './pages.ts';
import { READ_MODELS_TOKEN, ReadModelRegistry } from './read-model-registry.ts';
import { ReadModelsController } from './read-models.controller.ts';
import { RebuildMetrics } from './rebuild-metrics.ts';
import { RebuildPreparations } from './rebuild-preparations.ts';
import { RebuildProgress } from './rebuild-progress.ts';
import { RebuildStatements } from './rebuild-statements.ts';
import { RebuildStore } from './rebuild-store.ts';
import { Rebuilds } from './rebuilds.ts';
import { Replay } from './replay.ts';
import { ReplayFailures } from './replay-failures.ts';
import { Switch } from './switch.ts';

/** Read models, and computing one of them from scratch while the old one is read. */
@Module({})
export class RebuildModule {
  static with(databaseUrl: string, readModels: readonly ReadModel[]): DynamicModule {
    return {
      module: RebuildModule,
      imports: [DiscoveryModule],
      controllers: [ReadModelsController],
      providers: [
        { provide: DATABASE_URL, useValue: databaseUrl },
        { provide: READ_MODELS_TOKEN, useValue: readModels },
        ReadModelRegistry,
        ModelVersions,
        RebuildStatements,
        RebuildStore,
        RebuildMetrics,
        RebuildProgress,
        LaneSource,
        HistorySource,
        Pages,
        RebuildPreparations,
        ReplayFailures,
        Replay,
        Build,
        Differ,
        Drain,
        Switch,
        Rebuilds,
      ],
    };
  }
}
