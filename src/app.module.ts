import { type DynamicModule, Module } from '@nestjs/common';
import { ClockModule } from './clock/clock.module.ts';
import { ConfigModule } from './config/config.module.ts';
import type { Settings } from './config/settings.ts';
import type { ReadModel } from './contract/read-model.ts';
import { schemasOf } from './database/data-source-options.ts';
import { DatabaseModule } from './database/database.module.ts';
import { DefinitionsModule } from './definitions/definitions.module.ts';
import { GroupsModule } from './groups/groups.module.ts';
import { HistoryModule } from './history/history.module.ts';
import { HttpModule } from './http/http.module.ts';
import { InboxModule } from './inbox/inbox.module.ts';
import { LanesModule } from './lanes/lanes.module.ts';
import { ListenersModule } from './listeners/listeners.module.ts';
import { OutboxModule } from './outbox/outbox.module.ts';
import { RebuildModule } from './rebuild/rebuild.module.ts';
import { schemaOf } from './schema.ts';
import { SourcesModule } from './sources/sources.module.ts';
import { StandbysModule } from './standbys/standbys.module.ts';
import type { Log } from './telemetry/logger.ts';
import { TelemetryModule } from './telemetry/telemetry.module.ts';
import { TopicsModule } from './topics/topics.module.ts';
import { UpkeepModule } from './upkeep/upkeep.module.ts';

/** All modules: foundations first, then the features in the order in which a message passes through them. */
@Module({})
export class AppModule {
  static with(
    databaseUrl: string,
    settings: Settings,
    log: Log,
    readModels: readonly ReadModel[],
    extensions: readonly DynamicModule[] = [],
  ): DynamicModule {
    return {
      module: AppModule,
      imports: [
        ...extensions,
        ConfigModule.with(settings),
        TelemetryModule.with(log),
        ClockModule,
        DatabaseModule.with(databaseUrl, settings, schemaOf(readModels)),
        StandbysModule.with(settings, schemasOf(readModels)),
        HttpModule,
        LanesModule,
        ListenersModule,
        TopicsModule,
        GroupsModule,
        DefinitionsModule,
        HistoryModule,
        InboxModule,
        SourcesModule,
        OutboxModule,
        ...readModels.map(({ module }) => module),
        RebuildModule.with(databaseUrl, readModels),
        UpkeepModule,
      ],
    };
  }
}
