import { Global, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { Alerts } from '../contract/alerts.ts';
import { MessageStates } from '../contract/fresh.ts';
import { Pending } from '../contract/pending.ts';
import { FanOutModule } from '../outbox/fan-out/fan-out.module.ts';
import { DenormalizerRunner } from './denormalizers/denormalizer-runner.ts';
import { Denormalizers } from './denormalizers/denormalizers.ts';
import { HoldsController } from './holds/holds.controller.ts';
import { HoldsStore } from './holds/holds-store.ts';
import { InboxAlerts } from './inbox-alerts.ts';
import { InboxPending } from './inbox-pending.ts';
import { InboxQueue } from './inbox-queue.ts';
import { Ingest } from './ingest.ts';
import { IngestMetrics } from './ingest-metrics.ts';
import { IngestStore } from './ingest-store.ts';
import { MessageAcceptor } from './message-acceptor.ts';
import { MessageFinder } from './message-finder.ts';
import { InboxMessageStates } from './message-states.ts';
import { MessagesController } from './messages.controller.ts';
import { MessagesStore } from './messages-store.ts';
import { PayloadController } from './payload.controller.ts';
import { PostMessages } from './post-messages.ts';
import { DueMessages } from './processing/due-messages.ts';
import { ExpiredMessages } from './processing/expired-messages.ts';
import { InboxGate } from './processing/inbox-gate.ts';
import { InboxProcessingTrigger } from './processing/inbox-processing-trigger.ts';
import { InboxProcessor } from './processing/inbox-processor.ts';
import { InboxTransaction } from './processing/inbox-transaction.ts';
import { OldSnapshots } from './processing/lane-budget.ts';
import { Preparations, PrepareBatch } from './processing/preparations.ts';
import { PrepareLanes } from './processing/prepare-lanes.ts';
import { ProcessingMetrics } from './processing/processing-metrics.ts';
import { SettleStore } from './processing/settle-store.ts';
import { Triage } from './processing/triage.ts';
import { UnhandledTypes } from './processing/unhandled-types.ts';
import { ProducersController } from './producers.controller.ts';
import { ProducersStore } from './producers-store.ts';
import { TopicMessagesController } from './topic-messages.controller.ts';

/** From the POST to the inbox row, and from there to the read model and the outbox. */
@Global()
@Module({
  imports: [DiscoveryModule, FanOutModule],
  controllers: [
    PayloadController,
    MessagesController,
    ProducersController,
    TopicMessagesController,
    HoldsController,
  ],
  providers: [
    Ingest,
    MessageAcceptor,
    PostMessages,
    IngestStore,
    IngestMetrics,
    MessagesStore,
    MessageFinder,
    ProducersStore,
    HoldsStore,
    InboxQueue,
    DueMessages,
    ExpiredMessages,
    InboxGate,
    InboxProcessingTrigger,
    OldSnapshots,
    Preparations,
    PrepareBatch,
    PrepareLanes,
    InboxProcessor,
    Triage,
    InboxTransaction,
    Denormalizers,
    DenormalizerRunner,
    SettleStore,
    ProcessingMetrics,
    UnhandledTypes,
    { provide: MessageStates, useClass: InboxMessageStates },
    { provide: Alerts, useClass: InboxAlerts },
    { provide: Pending, useClass: InboxPending },
  ],
  exports: [MessageStates, Pending, Alerts, Ingest, IngestStore, MessagesStore, HoldsStore, InboxGate],
})
export class InboxModule {}
