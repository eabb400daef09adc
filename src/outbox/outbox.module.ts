import { Module } from '@nestjs/common';
import { Admission } from './admission.ts';
import { Claims } from './claims.ts';
import { Conclusions } from './conclusions.ts';
import { Courier } from './courier.ts';
import { DeliveriesController } from './deliveries.controller.ts';
import { DeliveryMetrics } from './delivery-metrics.ts';
import { Draining } from './draining.ts';
import { FanOutModule } from './fan-out.module.ts';
import { Gates } from './gates.ts';
import { HeldLanes } from './held-lanes.ts';
import { LaneRuns } from './lane-runs.ts';
import { ListenerHealth } from './listener-health.ts';
import { OutboxProcessor } from './outbox-processor.ts';
import { OutboxQueue } from './outbox-queue.ts';
import { Probes } from './probes.ts';
import { RateLimits } from './rate-limits.ts';
import { ReplayStore } from './replay/replay-store.ts';
import { Replays } from './replay/replays.ts';
import { RunSizes } from './run-sizes.ts';
import { Settling } from './settling.ts';

/** From the fan-out to the webhook, in the order a delivery meets them. */
@Module({
  imports: [FanOutModule],
  controllers: [DeliveriesController],
  providers: [
    OutboxQueue,
    OutboxProcessor,
    HeldLanes,
    LaneRuns,
    RunSizes,
    Claims,
    Admission,
    Gates,
    RateLimits,
    Courier,
    Settling,
    Conclusions,
    ListenerHealth,
    Probes,
    Draining,
    DeliveryMetrics,
    ReplayStore,
    Replays,
  ],
})
export class OutboxModule {}
