import { Module } from '@nestjs/common';
import { Admission } from './admit/admission.ts';
import { Draining } from './admit/draining.ts';
import { Gates } from './admit/gates.ts';
import { Probes } from './admit/probes.ts';
import { RateLimits } from './admit/rate-limits.ts';
import { RunSizes } from './claim/claim-sizes.ts';
import { HoldTimers } from './claim/hold-timers.ts';
import { LeasedLanes } from './claim/leased-lanes.ts';
import { ClaimQueue, OutboxQueue } from './claim/outbox-queue.ts';
import { DeliveriesController } from './deliveries.controller.ts';
import { DeliveryController } from './delivery.controller.ts';
import { DeliveryStore } from './delivery-store.ts';
import { FanOutModule } from './fan-out/fan-out.module.ts';
import { DeliveryMetrics } from './health/delivery-metrics.ts';
import { ListenerHealth } from './health/listener-health.ts';
import { ListenerPolicy } from './health/listener-policy.ts';
import { OutboxProcessor } from './outbox-processor.ts';
import { ExpiredLeases } from './pull/expired-leases.ts';
import { HandOutStore } from './pull/hand-out-store.ts';
import { LeaseStore } from './pull/lease-store.ts';
import { Leases } from './pull/leases.ts';
import { PullController } from './pull/pull.controller.ts';
import { PullMetrics } from './pull/pull-metrics.ts';
import { PullQueues } from './pull/pull-queues.ts';
import { ReplayStore } from './replay/replay-store.ts';
import { ReplaysController } from './replay/replays.controller.ts';
import { Replays } from './replay/replays.ts';
import { LaneRuns } from './send/lane-runs.ts';
import { LaneSender } from './send/lane-sender.ts';
import { BatchSettler } from './settle/batch-settler.ts';
import { LostAttempts } from './settle/lost-attempts.ts';
import { ResultWriter } from './settle/result-writer.ts';

/** From the fan-out to the webhook or the consumer, in the order in which a delivery passes through them. */
@Module({
  imports: [FanOutModule],
  controllers: [DeliveriesController, DeliveryController, ReplaysController, PullController],
  providers: [
    OutboxQueue,
    OutboxProcessor,
    LeasedLanes,
    LaneRuns,
    RunSizes,
    ClaimQueue,
    LaneSender,
    Admission,
    Gates,
    RateLimits,
    ResultWriter,
    BatchSettler,
    LostAttempts,
    HoldTimers,
    ListenerPolicy,
    ListenerHealth,
    Probes,
    Draining,
    DeliveryMetrics,
    ReplayStore,
    Replays,
    DeliveryStore,
    HandOutStore,
    LeaseStore,
    Leases,
    ExpiredLeases,
    PullQueues,
    PullMetrics,
  ],
  exports: [DeliveryStore],
})
export class OutboxModule {}
