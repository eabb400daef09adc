import { ApiKeys1763251200001 } from '../migrations/1763251200001-api-keys.ts';
import { Inbox1763251200002 } from '../migrations/1763251200002-inbox.ts';
import { Lanes1763251200003 } from '../migrations/1763251200003-lanes.ts';
import { Listeners1763251200004 } from '../migrations/1763251200004-listeners.ts';
import { Outbox1763251200005 } from '../migrations/1763251200005-outbox.ts';
import { Audit1763251200021 } from '../migrations/1763251200021-audit.ts';
import { DeadLetters1763251200022 } from '../migrations/1763251200022-dead-letters.ts';
import { Schedules1763251200023 } from '../migrations/1763251200023-schedules.ts';
import { Observation1763251200030 } from '../migrations/1763251200030-observation.ts';
import { KeptHolds1763251200031 } from '../migrations/1763251200031-kept-holds.ts';
import { ItemsInOrder1763251200032 } from '../migrations/1763251200032-items-in-order.ts';
import { GatesSetAt1763251200033 } from '../migrations/1763251200033-gates-set-at.ts';
import { ListenerRevision1763251200034 } from '../migrations/1763251200034-listener-revision.ts';
import { WaitsSince1763251200035 } from '../migrations/1763251200035-waits-since.ts';
import { GatesPauses1763251200036 } from '../migrations/1763251200036-gates-pauses.ts';
import { InboxExpiring1763251200040 } from '../migrations/1763251200040-inbox-expiring.ts';
import { RulingsByQueue1763251200041 } from '../migrations/1763251200041-rulings-by-queue.ts';
import { MessagesByStatus1763251200050 } from '../migrations/1763251200050-messages-by-status.ts';
import { AnswersKept1763251200051 } from '../migrations/1763251200051-answers-kept.ts';
import { Keyless1763251200052 } from '../migrations/1763251200052-keyless.ts';
import { ReplaySelection1763251200063 } from '../migrations/1763251200063-replay-selection.ts';
import { BoundApiKeys1763251200068 } from '../migrations/1763251200068-bound-api-keys.ts';
import { SealedUrls1763251200069 } from '../migrations/1763251200069-sealed-urls.ts';
import { ScheduledExpiring1763251200070 } from '../migrations/1763251200070-scheduled-expiring.ts';
import { PullListeners1763251200080 } from '../migrations/1763251200080-pull-listeners.ts';
import { Topics1763251200081 } from '../migrations/1763251200081-topics.ts';
import { ConsumerGroups1763251200082 } from '../migrations/1763251200082-consumer-groups.ts';
import { GroupDeadLetters1763251200083 } from '../migrations/1763251200083-group-dead-letters.ts';
import { ReplicasAndActivity1763251200090 } from '../migrations/1763251200090-replicas-and-activity.ts';
import { Attention1763251200091 } from '../migrations/1763251200091-attention.ts';
import { CancelledJobs1763251200092 } from '../migrations/1763251200092-cancelled-jobs.ts';
import { AppliedOrder1763251200100 } from '../migrations/1763251200100-applied-order.ts';
import { Rebuilds1763251200101 } from '../migrations/1763251200101-rebuilds.ts';
import { History1763251200120 } from '../migrations/1763251200120-history.ts';
import { SealedCredentials1763251200160 } from '../migrations/1763251200160-sealed-credentials.ts';
import { Cells1763251200170 } from '../migrations/1763251200170-cells.ts';
import { RebuildHistory1763251200180 } from '../migrations/1763251200180-rebuild-history.ts';
import { RejectionsByFence1763251200190 } from '../migrations/1763251200190-rejections-by-fence.ts';
import { FingerprintsOfResponses1763251200191 } from '../migrations/1763251200191-fingerprints-of-responses.ts';
import { Sources1763251200220 } from '../migrations/1763251200220-sources.ts';
import { RebuildRetries1763251200231 } from '../migrations/1763251200231-rebuild-retries.ts';
import { ReadModelVersions1763251200240 } from '../migrations/1763251200240-read-model-versions.ts';
import { RebuildDrains1763251200241 } from '../migrations/1763251200241-rebuild-drains.ts';
import { RebuildProgress1763251200242 } from '../migrations/1763251200242-rebuild-progress.ts';
import { StandbyMarks1763251200260 } from '../migrations/1763251200260-standby-marks.ts';
import { CellMoves1763251200270 } from '../migrations/1763251200270-cell-moves.ts';
import { CursorHandedBy1763251200280 } from '../migrations/1763251200280-cursor-handed-by.ts';
import type { SchemaPart } from './database/data-source-options.ts';

/** Migrations of the engine, in the order in which they run. Read models have their own. */
const ENGINE: SchemaPart = {
  entities: [],
  migrations: [
    ApiKeys1763251200001,
    Inbox1763251200002,
    Lanes1763251200003,
    Listeners1763251200004,
    Outbox1763251200005,
    Audit1763251200021,
    DeadLetters1763251200022,
    Schedules1763251200023,
    Observation1763251200030,
    KeptHolds1763251200031,
    ItemsInOrder1763251200032,
    GatesSetAt1763251200033,
    ListenerRevision1763251200034,
    WaitsSince1763251200035,
    GatesPauses1763251200036,
    InboxExpiring1763251200040,
    RulingsByQueue1763251200041,
    MessagesByStatus1763251200050,
    AnswersKept1763251200051,
    Keyless1763251200052,
    ReplaySelection1763251200063,
    BoundApiKeys1763251200068,
    SealedUrls1763251200069,
    ScheduledExpiring1763251200070,
    PullListeners1763251200080,
    Topics1763251200081,
    ConsumerGroups1763251200082,
    GroupDeadLetters1763251200083,
    ReplicasAndActivity1763251200090,
    Attention1763251200091,
    CancelledJobs1763251200092,
    AppliedOrder1763251200100,
    Rebuilds1763251200101,
    History1763251200120,
    SealedCredentials1763251200160,
    Cells1763251200170,
    RebuildHistory1763251200180,
    RejectionsByFence1763251200190,
    FingerprintsOfResponses1763251200191,
    Sources1763251200220,
    RebuildRetries1763251200231,
    ReadModelVersions1763251200240,
    RebuildDrains1763251200241,
    RebuildProgress1763251200242,
    StandbyMarks1763251200260,
    CellMoves1763251200270,
    CursorHandedBy1763251200280,
  ],
};

/** The engine's tables and those of its read models. */
export function schemaOf(readModels: readonly SchemaPart[]): readonly SchemaPart[] {
  return [ENGINE, ...readModels];
}
