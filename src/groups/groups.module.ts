import { Global, Module } from '@nestjs/common';
import { Commits } from './commits.ts';
import { DatabaseContact } from './database-contact.ts';
import { GroupBalancer } from './group-balancer.ts';
import { GroupChanges } from './group-changes.ts';
import { GroupMetrics } from './group-metrics.ts';
import { GroupViews } from './group-views.ts';
import { GroupsController } from './groups.controller.ts';
import { GroupsStore } from './groups-store.ts';
import { Memberships } from './memberships.ts';
import { PollStore } from './poll-store.ts';
import { PollWaiters } from './poll-waiters.ts';
import { Polls } from './polls.ts';
import { RejectionsStore } from './rejections-store.ts';
import { RevivedTopics } from './revived-topics.ts';
import { Seeks } from './seeks.ts';

/** Consumers that share the partitions of topics. */
@Global()
@Module({
  controllers: [GroupsController],
  providers: [
    DatabaseContact,
    GroupsStore,
    GroupChanges,
    GroupViews,
    GroupBalancer,
    Memberships,
    PollStore,
    PollWaiters,
    Polls,
    Commits,
    RejectionsStore,
    RevivedTopics,
    Seeks,
    GroupMetrics,
  ],
  exports: [GroupViews, GroupChanges, GroupsStore, RejectionsStore, RevivedTopics],
})
export class GroupsModule {}
