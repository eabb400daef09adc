import { Global, Module } from '@nestjs/common';
import { LaneMetrics } from './lane-metrics.ts';
import { Notifications } from './notifications.ts';
import { Wakeups } from './wakeups.ts';

@Global()
@Module({ providers: [Wakeups, Notifications, LaneMetrics], exports: [Wakeups, LaneMetrics] })
export class LanesModule {}
