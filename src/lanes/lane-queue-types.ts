import type { Statement } from '../database/database.ts';
import type { Lease } from './lease.ts';

export interface LaneRow {
  readonly position: number;
  readonly lane: number;
  /** The ctid of the claimed row, valid until its owner changes the row. */
  readonly place: string;
}

export interface LeaseRequest {
  /** Lease only these lanes; undefined: scan all, from the cursor on. */
  readonly hint: readonly number[] | undefined;
  readonly maxLanes: number;
  readonly maxRows: number;
  /** Max rows of each lane, however few lanes were free. */
  readonly maxPerLane?: number;
  /** Use one round trip, for hinted lanes that were just written to. It skips lanes whose last owner crashed. */
  readonly quick?: boolean;
}

export interface LeasedRows<Row> {
  readonly lease: Lease;
  readonly rows: Row[];
}

/** A lease and a claim that are part of the transaction which writes the claimed rows. */
export interface PiggybackLease<Row> {
  /** To be issued after the rows are written and FORCE_INDEX_PLANS is set. */
  readonly statements: readonly Statement[];
  /**
   * After the COMMIT, with the results of the statements. Undefined: none of the lanes was free. Of a lease that a worker
   * made (`Piggyback.leaseFor`), this call also starts the worker on the rows.
   */
  leased(results: readonly (readonly unknown[])[]): LeasedRows<Row> | undefined;
  /** The transaction failed. If its COMMIT may have happened nevertheless, the lanes are given back. */
  failed(error: unknown): void;
}

export type HoldReason = 'retry' | 'deferred' | 'rate' | 'dead-letter' | 'operator';

export interface HoldRequest {
  readonly key: string;
  readonly lane: number;
  /** Milliseconds from now; undefined: indefinitely. */
  readonly forMs: number | undefined;
  readonly reason: HoldReason;
}

export interface LaneQueueOptions {
  readonly lanes: number;
  readonly leaseMs: number;
  readonly replica: string;
  /**
   * Only `leaseSuspect` leases suspect lanes, so that the whole process works on one at a time. Otherwise `lease` leases
   * them too, each alone.
   */
  readonly suspectsApart?: boolean;
  /** Called with how many rows a crashed owner had in flight. */
  readonly onTakenOver?: (rows: number) => void;
  /** Called with how many lanes were lost to another replica; each lane is counted once. */
  readonly onLost?: (lanes: number) => void;
}
