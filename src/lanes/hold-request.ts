export type HoldReason = 'retry' | 'deferred' | 'rate' | 'dead-letter' | 'operator';

export interface HoldRequest {
  readonly key: string;
  readonly lane: number;
  /** Milliseconds from now; undefined: without end. */
  readonly forMs: number | undefined;
  readonly reason: HoldReason;
}
