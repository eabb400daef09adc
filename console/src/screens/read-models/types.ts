/** What the API says of read models. */
export interface ReadModel {
  readonly name: string;
  readonly types: readonly string[];
  readonly version: string;
  readonly rebuild: Rebuild | null;
}

export type RebuildStatus =
  | 'building'
  | 'replaying'
  | 'comparing'
  | 'ready'
  | 'switching'
  | 'switched'
  | 'rolled-back'
  | 'failed'
  | 'cancelled'
  | 'dropped';

export interface Rebuild {
  readonly id: string;
  readonly model: string;
  readonly status: RebuildStatus;
  readonly paused: boolean;
  readonly schema: string;
  readonly options: {
    readonly dryRun: boolean;
    readonly recordFailures: boolean;
    readonly acceptFailures: boolean;
    readonly partial: boolean;
  };
  readonly total: number;
  readonly done: number;
  readonly leftOut: number;
  readonly createdAt: string;
  readonly createdBy: string;
  readonly perSecond?: number;
  readonly secondsLeft?: number;
  readonly waitsFor?: string;
  readonly failure?: {
    readonly error: string;
    readonly id?: string;
    readonly source?: string;
    readonly type?: string;
    readonly key?: string;
  };
  readonly diff?: Diff;
  readonly switchedAt?: string;
  readonly pauseMs?: number;
  readonly endedAt?: string;
}

export interface Diff {
  readonly tables: readonly TableDiff[];
  readonly rows: readonly Difference[];
}

export interface TableDiff {
  readonly table: string;
  readonly onlyOld: number;
  readonly onlyNew: number;
  readonly different: number;
}

export interface Difference {
  readonly table: string;
  readonly kind: 'only-old' | 'only-new' | 'different';
  readonly old: Readonly<Record<string, unknown>> | null;
  readonly new: Readonly<Record<string, unknown>> | null;
}
