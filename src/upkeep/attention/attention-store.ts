import { Injectable } from '@nestjs/common';
import { Database, type Statement } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import {
  DEAD_LETTERS,
  HISTORY_FAILURE,
  INDEFINITE_HOLDS,
  LISTENERS,
  LIVE_ROLES,
  PRODUCER_GAPS,
  SOURCES,
  STALLED_JOBS,
} from './attention.sql.ts';

export interface DeadLettersRow {
  readonly stage: 'inbox' | 'outbox' | 'group';
  readonly listener: string | null;
  readonly group: string | null;
  readonly fingerprint: string;
  readonly count: number;
  readonly since: Date;
  /** There are more dead letters of the stage than were counted. */
  readonly capped: boolean;
}

export interface ListenerRow {
  readonly name: string;
  readonly state: string;
  readonly stateReason: string | null;
  readonly stateSince: Date;
  /** Of an open circuit; null if it is closed. */
  readonly reason: string | null;
  readonly openSince: Date | null;
  readonly closedUntil: Date | null;
}

export interface HoldRow {
  readonly key: string;
  readonly reason: string;
  readonly since: Date;
}

export interface JobRow {
  readonly kind: 'stalled-revive' | 'stalled-replay' | 'rebuild-stopped' | 'schema-kept';
  readonly id: number;
  /** What kind of job; of a rebuild, its read model. */
  readonly what: string;
  readonly listener: string | null;
  readonly since: Date;
}

export interface GapRow {
  readonly source: string;
  readonly id: string;
  readonly since: Date;
  readonly first: number;
  readonly count: number;
}

export interface HistoryFailureRow {
  readonly work: 'archive' | 'upkeep';
  readonly since: Date;
  readonly error: string;
}

export interface SourceRow {
  readonly name: string;
  /** `unread`: no replica has read it for a minute. */
  readonly state: 'waiting' | 'running' | 'failing' | 'full' | 'unread';
  readonly error: string | null;
  readonly since: Date;
  /** Of refused messages. */
  readonly count: number;
}

/** What the observation of the backlog does not have. */
export interface Findings {
  readonly dead: readonly DeadLettersRow[];
  readonly listeners: readonly ListenerRow[];
  readonly holds: readonly HoldRow[];
  readonly jobs: readonly JobRow[];
  readonly roles: readonly string[];
  readonly gaps: readonly GapRow[];
  readonly history: readonly HistoryFailureRow[];
  readonly sources: readonly SourceRow[];
}

/** To be sent after FORCE_INDEX_PLANS, perhaps with other statements; `findingsOf()` reads what they return. */
export const FINDINGS: readonly Statement[] = [
  [DEAD_LETTERS],
  [LISTENERS],
  [INDEFINITE_HOLDS],
  [STALLED_JOBS],
  [LIVE_ROLES],
  [PRODUCER_GAPS],
  [HISTORY_FAILURE],
  [SOURCES],
];

@Injectable()
export class AttentionStore {
  constructor(private readonly database: Database) {}

  async find(): Promise<Findings> {
    const [, ...rows] = await this.database.inOneRoundTrip([[FORCE_INDEX_PLANS], ...FINDINGS]);
    return findingsOf(rows);
  }
}

/** The rows of each statement of FINDINGS. */
export function findingsOf(rows: readonly unknown[][]): Findings {
  const [dead, listeners, holds, jobs, roles, gaps, history, sources] = rows;
  return {
    dead: dead as DeadLettersRow[],
    listeners: listeners as ListenerRow[],
    holds: holds as HoldRow[],
    jobs: jobs as JobRow[],
    roles: (roles as { role: string }[]).map(({ role }) => role),
    gaps: gaps as GapRow[],
    history: history as HistoryFailureRow[],
    sources: sources as SourceRow[],
  };
}
