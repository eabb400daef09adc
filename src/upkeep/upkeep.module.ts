import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { DeadLetterAlarms } from './dead-letters/alarms.ts';
import { DeadLetterActionStore } from './dead-letters/dead-letter-action-store.ts';
import { DeadLetterActions } from './dead-letters/dead-letter-actions.ts';
import { DeadLettersController } from './dead-letters/dead-letters.controller.ts';
import { DeadLettersStore } from './dead-letters/dead-letters-store.ts';
import { HealthController } from './health/health.controller.ts';
import { MetricsController } from './health/metrics.controller.ts';
import { Readiness } from './health/readiness.ts';
import { BacklogController } from './observation/backlog.controller.ts';
import { Observation } from './observation/observation.ts';
import { ObservationStore } from './observation/observation-store.ts';
import { Retention } from './retention/retention.ts';
import { ScheduledJobs } from './scheduled-jobs.ts';
import { ScheduleStore } from './schedules/schedule-store.ts';
import { SchedulesController } from './schedules/schedules.controller.ts';
import { Schedules } from './schedules/schedules.ts';

/** Operations: health, metrics, retention, dead letters, schedules. */
@Module({
  imports: [ScheduleModule.forRoot()],
  controllers: [
    HealthController,
    MetricsController,
    BacklogController,
    DeadLettersController,
    SchedulesController,
  ],
  providers: [
    ScheduledJobs,
    Retention,
    Observation,
    ObservationStore,
    Readiness,
    DeadLettersStore,
    DeadLetterActionStore,
    DeadLetterActions,
    DeadLetterAlarms,
    ScheduleStore,
    Schedules,
  ],
  exports: [Readiness],
})
export class UpkeepModule {}
