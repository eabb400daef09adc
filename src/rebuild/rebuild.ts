export const STATUSES = [
  'building',
  'replaying',
  'comparing',
  'ready',
  'switching',
  'switched',
  'rolled-back',
  'failed',
  'cancelled',
  'dropped',
] as const;
export type Status = (typeof STATUSES)[number];

/** What an operator asked for. */
export interface RebuildOptions {
  /** Stops after the comparison, until it is switched or cancelled. */
  readonly dryRun: boolean;
  /** A message that fails is recorded and left out, instead of stopping the rebuild. */
  readonly recordFailures: boolean;
  /** Switches although messages were left out without a reason. */
  readonly acceptFailures: boolean;
  /** Goes ahead although the oldest messages are no longer there. */
  readonly partial: boolean;
}

export interface Failure {
  readonly position: number;
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly error: string;
}

/** A rebuild as stored. */
export interface Rebuild {
  readonly id: number;
  readonly model: string;
  /** The schema that is not the living one: the next one, after the switch the previous one. */
  readonly target: string;
  readonly status: Status;
  readonly direction: 'forward' | 'back';
  readonly paused: boolean;
  readonly options: RebuildOptions;
  readonly migrations: readonly string[];
  /** Of the denormalizers' code, on the replica that started it. Null: started by a version that did not record it. */
  readonly version: string | null;
  readonly compared: boolean;
}

/** What one transaction may still have to apply while all lanes wait for it. */
export const MAX_TAIL = 2_000;

export const nextSchema = (model: string) => `${model}__next`;
export const previousSchema = (model: string) => `${model}__previous`;

/** Where a lane is: everything up to this message is applied. */
export interface LaneCursor {
  readonly lane: number;
  readonly applied: number;
  readonly position: number;
}
