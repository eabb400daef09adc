import { Global, Module } from '@nestjs/common';
import { BrowseStore } from './browse-store.ts';
import { TopicChanges } from './topic-changes.ts';
import { TopicsController } from './topics.controller.ts';
import { Topics } from './topics.ts';
import { TopicsStore } from './topics-store.ts';

/** Logs of messages that consumers read at their own pace. */
@Global()
@Module({
  controllers: [TopicsController],
  providers: [TopicsStore, Topics, TopicChanges, BrowseStore],
  exports: [TopicsStore, Topics, TopicChanges],
})
export class TopicsModule {}
