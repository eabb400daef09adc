import { Module } from '@nestjs/common';
import { DefinitionsModule } from '../definitions/definitions.module.ts';
import { SourceMetrics } from './source-metrics.ts';
import { SourcesController } from './sources.controller.ts';
import { Sources } from './sources.ts';
import { SourcesStore } from './sources-store.ts';

/** Messages that are read from brokers into the inbox. */
@Module({
  imports: [DefinitionsModule],
  controllers: [SourcesController],
  providers: [Sources, SourcesStore, SourceMetrics],
})
export class SourcesModule {}
