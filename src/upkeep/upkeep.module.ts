import { Module } from '@nestjs/common';
import { OutboxModule } from '../outbox/outbox.module.ts';
import { ActivityController } from './activity/activity.controller.ts';
import { ActivityStore } from './activity/activity-store.ts';
import { ActivityWriter } from './activity/activity-writer.ts';
import { Rates } from './activity/rates.ts';
import { AttentionController } from './attention/attention.controller.ts';
import { Attention } from './attention/attention.ts';
import { AttentionStore } from './attention/attention-store.ts';
import { DeadLetterAlarms } from './dead-letters/alarms.ts';
import { DeadLetterActionStore } from './dead-letters/dead-letter-action-store.ts';
import { DeadLetterActions } from './dead-letters/dead-letter-actions.ts';
import { DeadLettersController } from './dead-letters/dead-letters.controller.ts';
import { DeadLettersStore } from './dead-letters/dead-letters-store.ts';
import { GroupActions } from './dead-letters/group-actions.ts';
import { RulingsController } from './dead-letters/rulings.controller.ts';
import { FindController } from './find/find.controller.ts';
import { FindStore } from './find/find-store.ts';
import { HealthController } from './health/health.controller.ts';
import { MetricsController } from './health/metrics.controller.ts';
import { Readiness } from './health/readiness.ts';
import { ExportHorizon } from './history/export-horizon.ts';
import { HistoryController } from './history/history.controller.ts';
import { HistoryExport } from './history/history-export.ts';
import { HistoryImport } from './history/history-import.ts';
import { HistoryStatus } from './history/history-status.ts';
import { KeyErasure } from './history/key-erasure.ts';
import { KeysController } from './keys/keys.controller.ts';
import { KeysStore } from './keys/keys-store.ts';
import { LiveController } from './live/live.controller.ts';
import { LiveFrames } from './live/live-frames.ts';
import { LiveStore } from './live/live-store.ts';
import { LiveStreams } from './live/live-streams.ts';
import { OperatorActions } from './live/operator-actions.ts';
import { BacklogController } from './observation/backlog.controller.ts';
import { Observation } from './observation/observation.ts';
import { ObservationStore } from './observation/observation-store.ts';
import { ReplicationMetrics } from './observation/replication-metrics.ts';
import { Snapshots } from './observation/snapshots.ts';
import { Heartbeat } from './replicas/heartbeat.ts';
import { ReplicaIdentity } from './replicas/replica-identity.ts';
import { ReplicasController } from './replicas/replicas.controller.ts';
import { ReplicasStore } from './replicas/replicas-store.ts';
import { Archiving } from './retention/archiving.ts';
import { Retention } from './retention/retention.ts';
import { TopicRetention } from './retention/topic-retention.ts';
import { ScheduleStore } from './schedules/schedule-store.ts';
import { SchedulesController } from './schedules/schedules.controller.ts';
import { Schedules } from './schedules/schedules.ts';

/** Operations: health, metrics, retention, dead letters, schedules. */
@Module({
  imports: [OutboxModule],
  controllers: [
    HealthController,
    MetricsController,
    BacklogController,
    ReplicasController,
    ActivityController,
    AttentionController,
    LiveController,
    FindController,
    KeysController,
    HistoryController,
    RulingsController,
    DeadLettersController,
    SchedulesController,
  ],
  providers: [
    Retention,
    TopicRetention,
    Archiving,
    ExportHorizon,
    HistoryExport,
    HistoryImport,
    HistoryStatus,
    KeyErasure,
    Observation,
    ObservationStore,
    ReplicationMetrics,
    Readiness,
    ReplicaIdentity,
    ReplicasStore,
    Heartbeat,
    ActivityStore,
    ActivityWriter,
    Rates,
    Snapshots,
    Attention,
    AttentionStore,
    LiveFrames,
    LiveStore,
    LiveStreams,
    OperatorActions,
    FindStore,
    KeysStore,
    DeadLettersStore,
    DeadLetterActionStore,
    DeadLetterActions,
    GroupActions,
    DeadLetterAlarms,
    ScheduleStore,
    Schedules,
  ],
  exports: [Readiness],
})
export class UpkeepModule {}
