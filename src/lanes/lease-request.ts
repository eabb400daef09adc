import type { Statement } from '../database/database.ts';
import type { Lease } from './lease.ts';

export interface LaneRow {
  readonly position: number;
  readonly lane: number;
  /** Where the claimed row lies (ctid), until its holder changes it. */
  readonly place: string;
}

export interface LeaseRequest {
  /** Only these lanes; undefined: all, from the cursor on. */
  readonly hint: readonly number[] | undefined;
  readonly maxLanes: number;
  readonly maxRows: number;
  /** However few lanes were free. */
  readonly maxPerLane?: number;
  /** For hinted lanes that surely have work; those that anybody crashed in are left to a look that is not quick. */
  readonly quick?: boolean;
}

export interface LeasedRows<Row> {
  readonly lease: Lease;
  readonly rows: Row[];
}

/** A lease and a claim that go along with somebody else's transaction, the one that writes what is claimed. */
export interface PiggybackLease<Row> {
  /** To be issued last, after STRAIGHT_PLANS. */
  readonly statements: readonly Statement[];
  /** What came of them, from their answers; once that transaction is committed. Undefined: the lanes were not to be had. */
  leased(answers: readonly (readonly unknown[])[]): LeasedRows<Row> | undefined;
  /** The transaction failed; where its COMMIT may have happened nevertheless, what it took is given back. */
  failed(error: unknown): void;
}
