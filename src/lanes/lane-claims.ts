import type { Statement } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import { type ClaimLimits, claimLimits, type Lease, NOTHING_TO_CLAIM, statsAfter } from './lease.ts';
import type { LaneRow, LeaseRequest } from './lease-request.ts';

export interface Claimed<Row> {
  /** In position order. */
  readonly rows: Row[];
  /** How many rows of held keys the claim found and parked. */
  readonly parked: number;
}

type ClaimResult<Row> = (Row & { readonly parked: number })[];

/** The claim: marks the first rows of lanes that are already leased, and parks rows of held keys. */
export class LaneClaims<Row extends LaneRow> {
  constructor(
    private readonly queue: string,
    private readonly sql: { readonly claim: string; readonly clear: string },
  ) {}

  /** Claims for all lanes of a lease, and records in the lease what the next claim should expect. */
  async forLease(
    tx: Transaction,
    lease: Lease,
    { maxRows, maxPerLane }: Pick<LeaseRequest, 'maxRows' | 'maxPerLane'>,
  ): Promise<Row[]> {
    const lanes = [...lease.lanes];
    // All of them were lost since the last claim.
    if (lanes.length === 0) {
      Object.assign(lease, NOTHING_TO_CLAIM);
      return [];
    }
    const wanted = { maxRows: lease.oneAtATime ? 1 : maxRows, maxPerLane };
    const limits = claimLimits(wanted, lanes.length, lease);
    const claimed = await this.forTokens(tx, [lease.token], lanes, limits);
    Object.assign(lease, statsAfter(limits, lanes.length, claimed));
    return claimed.rows;
  }

  async forTokens(
    tx: Transaction,
    tokens: readonly string[],
    lanes: readonly number[],
    limits: ClaimLimits,
  ): Promise<Claimed<Row>> {
    if (lanes.length === 0) return { rows: [], parked: 0 };
    const [result] = await Promise.all([
      tx.query<Row & { parked: number }>(...this.statement(tokens, lanes, limits)),
      tx.execute(this.sql.clear, [this.queue, tokens, lanes]),
    ]);
    return claimedOf(result);
  }

  statement(
    tokens: readonly string[],
    lanes: readonly number[],
    { perLane, window, maxRows }: ClaimLimits,
  ): Required<Statement> {
    return [this.sql.claim, [this.queue, tokens, lanes, perLane, window, maxRows]];
  }
}

/** The claim statement returns at least one row, also when nothing was claimed. */
export function claimedOf<Row extends LaneRow>(result: ClaimResult<Row>): Claimed<Row> {
  const rows = result.filter(({ position }) => position !== null);
  // RETURNING promises no order.
  return { rows: rows.sort((a, b) => a.position - b.position), parked: result[0]!.parked };
}
