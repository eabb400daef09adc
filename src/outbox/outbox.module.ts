import { Module } from '@nestjs/common';
import { Admission } from './admit/admission.ts';
import { Draining } from './admit/draining.ts';
import { Gates } from './admit/gates.ts';
import { Probes } from './admit/probes.ts';
import { RateLimits } from './admit/rate-limits.ts';
import { ClaimQueue } from './claim/claim-queue.ts';
import { HeldLanes } from './claim/held-lanes.ts';
import { HoldTimers } from './claim/hold-timers.ts';
import { OutboxQueue } from './claim/outbox-queue.ts';
import { RunSizes } from './claim/run-sizes.ts';
import { DeliveriesController } from './deliveries.controller.ts';
import { FanOutModule } from './fan-out/fan-out.module.ts';
import { DeliveryMetrics } from './health/delivery-metrics.ts';
import { ListenerHealth } from './health/listener-health.ts';
import { ListenerPolicy } from './health/listener-policy.ts';
import { OutboxProcessor } from './outbox-processor.ts';
import { ReplayStore } from './replay/replay-store.ts';
import { Replays } from './replay/replays.ts';
import { DeliverySender } from './send/delivery-sender.ts';
import { LaneRuns } from './send/lane-runs.ts';
import { LaneSender } from './send/lane-sender.ts';
import { GroupWriter } from './settle/group-writer.ts';
import { LostAttempts } from './settle/lost-attempts.ts';
import { ResultWriter } from './settle/result-writer.ts';

/** From the fan-out to the webhook, in the order in which a delivery passes through them. */
@Module({
  imports: [FanOutModule],
  controllers: [DeliveriesController],
  providers: [
    OutboxQueue,
    OutboxProcessor,
    HeldLanes,
    LaneRuns,
    RunSizes,
    ClaimQueue,
    LaneSender,
    Admission,
    Gates,
    RateLimits,
    DeliverySender,
    ResultWriter,
    GroupWriter,
    LostAttempts,
    HoldTimers,
    ListenerPolicy,
    ListenerHealth,
    Probes,
    Draining,
    DeliveryMetrics,
    ReplayStore,
    Replays,
  ],
})
export class OutboxModule {}
