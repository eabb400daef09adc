import { Global, Module } from '@nestjs/common';
import { LaneMetrics } from './lane-metrics.ts';
import { Piggyback } from './piggyback.ts';
import { Notifications, Wakeups } from './wakeups.ts';

@Global()
@Module({
  providers: [Wakeups, Piggyback, Notifications, LaneMetrics],
  exports: [Wakeups, Piggyback, LaneMetrics],
})
export class LanesModule {}
