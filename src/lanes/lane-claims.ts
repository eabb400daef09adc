import type { Statement } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import type { LaneRow, LeaseRequest } from './lane-queue-types.ts';
import { beforeAnyClaim, type ClaimStats, type Lease } from './lease.ts';

/** How much one claim may take. */
export interface ClaimLimits {
  readonly maxRows: number;
  /** Max rows of each lane. */
  readonly perLane: number;
  /** How many ready rows of each lane are read. */
  readonly window: number;
}

/**
 * However empty the other lanes are, a lane with a long backlog gets no more than this part of a claim: the messages of a
 * key are applied one after the other, and the whole batch waits for the last. Measured with 90 % of the messages on one
 * key: the rate of the other keys, relative to their rate without those messages (medians of eight rounds), was 0.83 with a
 * quarter, 0.85 with an eighth, 0.92 with a sixteenth.
 */
const MIN_SHARES = 16;

/**
 * How many ready rows of a lane a claim reads while it finds rows to park; the other rows of the claim wait for that.
 * Measured with 500,000 rows behind a held key: the rate of the other keys, relative to their rate without those rows, was
 * 0.89–0.91 with 1,000 and 0.93 with 500.
 */
const PARKING_WINDOW = 500;

export interface ClaimResult<Row> {
  /** In position order. */
  readonly rows: Row[];
  /** How many rows of held keys the claim found and parked. */
  readonly parked: number;
}

type ClaimRows<Row> = (Row & { readonly parked: number })[];

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
  ): Promise<ClaimResult<Row>> {
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
export function claimedOf<Row extends LaneRow>(result: ClaimRows<Row>): ClaimResult<Row> {
  const rows = result.filter(({ position }) => position !== null);
  // RETURNING promises no order.
  return { rows: rows.sort((a, b) => a.position - b.position), parked: result[0]!.parked };
}

/**
 * Shares a claim among its lanes, or among as many as were busy in the last one: nearly empty lanes leave their share to the
 * others. Throws on a bad count: one that is not a number would fail in the database, far from the code that computed it.
 */
export function claimLimits(
  { maxRows, maxPerLane = maxRows }: { readonly maxRows: number; readonly maxPerLane?: number | undefined },
  lanes: number,
  { busyLanes, parking } = beforeAnyClaim(lanes),
): ClaimLimits {
  requireCounts({ lanes, maxRows, maxPerLane, busyLanes });
  const shares = Math.min(Math.max(busyLanes, MIN_SHARES), lanes);
  const perLane = Math.max(1, Math.min(maxPerLane, Math.floor(maxRows / shares)));
  return { maxRows, perLane, window: parking ? Math.max(perLane, PARKING_WINDOW) : perLane };
}

function requireCounts(counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) {
    if (!Number.isSafeInteger(count) || count < 1)
      throw new RangeError(`a claim needs a positive whole number of ${name}, not ${count}`);
  }
}

/** The result of a claim whose lanes are all lost. */
export const NOTHING_TO_CLAIM: ClaimStats = { busyLanes: 1, parking: false, more: false };

export function statsAfter(
  { maxRows, perLane }: ClaimLimits,
  lanes: number,
  { rows, parked }: { readonly rows: readonly { readonly lane: number }[]; readonly parked: number },
): ClaimStats {
  const evenShare = Math.min(perLane, Math.floor(maxRows / lanes));
  return {
    busyLanes: Math.max(1, lanesWith(evenShare, rows)),
    parking: parked > 0,
    more: parked > 0 || rows.length >= maxRows || lanesWith(perLane, rows) > 0,
  };
}

/** How many lanes returned at least this many rows; lanes without rows do not count. */
function lanesWith(count: number, rows: readonly { readonly lane: number }[]): number {
  const counts = new Map<number, number>();
  for (const { lane } of rows) counts.set(lane, (counts.get(lane) ?? 0) + 1);
  return [...counts.values()].filter((own) => own >= count).length;
}
