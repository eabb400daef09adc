import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { DeadLetterAlarms } from './dead-letters/alarms.ts';
import { DeadLettersController } from './dead-letters/dead-letters.controller.ts';
import { DeadLettersStore } from './dead-letters/dead-letters-store.ts';
import { RulingStore } from './dead-letters/ruling-store.ts';
import { Rulings } from './dead-letters/rulings.ts';
import { HealthController } from './health/health.controller.ts';
import { MetricsController } from './health/metrics.controller.ts';
import { Readiness } from './health/readiness.ts';
import { BacklogController } from './observation/backlog.controller.ts';
import { Observation } from './observation/observation.ts';
import { ObservationStore } from './observation/observation-store.ts';
import { Retention } from './retention/retention.ts';
import { ScheduleStore } from './schedules/schedule-store.ts';
import { SchedulesController } from './schedules/schedules.controller.ts';
import { Schedules } from './schedules/schedules.ts';

/** What keeps a running service well: health, metrics, retention, dead letters, schedules. */
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
    Retention,
    Observation,
    ObservationStore,
    Readiness,
    DeadLettersStore,
    RulingStore,
    Rulings,
    DeadLetterAlarms,
    ScheduleStore,
    Schedules,
  ],
  exports: [Readiness],
})
export class UpkeepModule {}
