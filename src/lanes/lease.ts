import type { Database, Statement } from '../database/database.ts';
import { prepared } from '../database/prepared.ts';
import type { Transaction } from '../database/transaction.ts';

/**
 * Two guards, each sufficient by itself, keep a replica that lost its lease from changing anything in the inbox. Both are
 * always on: only tests and fault runs turn one off, to show that the failure it prevents then happens and is detected.
 * The outbox has the same fence, which no switch turns off (`LeasedLanes.fence`). It may write the same results twice, so
 * rows that are no longer claimed are left alone there, instead of failing the transaction.
 */
export const GUARDS = {
  /** The fence proves the token. */
  fence: true,
  /** Settling counts the rows it changed. */
  settledCount: true,
};

/**
 * The end of an UPDATE of the rows in `named(position, attempt)`, as far as they are still marked as claimed at that
 * attempt. `processing` is so rare in the statistics that a plain join compares every marked row with every row of `named`
 * (measured: 250 ms for 512 rows instead of 8); this reads each row by its position.
 */
export const whereStillClaimed = (table: string) => (named: string) =>
  `
  CROSS JOIN LATERAL (
    SELECT marked.ctid AS place FROM ${table} AS marked
    WHERE marked.position = ${named}.position AND marked.attempt = ${named}.attempt AND marked.status = 'processing' LIMIT 1
  ) AS mine
  WHERE ${table}.ctid = mine.place`;

/**
 * Claimed rows wait behind the hold of their key again.
 * $1 positions, $2 attempts, $3 errors (null: none of its own), $4 whether the attempt counts
 */
export const putBackRows = (table: string) => `
  UPDATE ${table} SET status = 'held', waits = 'held', error = COALESCE(back.error, ${table}.error),
         attempt = ${table}.attempt - CASE WHEN back.counted THEN 0 ELSE 1 END
  FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::boolean[]) AS back(position, attempt, error, counted)
  ${whereStillClaimed(table)('back')}`;

/** A lane whose owners crashed this often in a row is suspect: its messages are processed one at a time. */
export const SUSPECT_AFTER = 2;
/** From this many crashes on, the crash counts as an attempt: the message was the only one claimed from a suspect lane. */
export const COUNTED_AFTER = SUSPECT_AFTER + 1;
/** More crashes than a lane's row counts. */
export const NEVER_COUNTED = 32_000;

/** Lanes leased by one worker, under one token, for a while. */
export interface Lease extends ClaimStats {
  readonly token: string;
  /** Lanes still leased; lanes that are lost, released or handed over are removed. */
  readonly lanes: Set<number>;
  /** The lease of a suspect lane: one message at a time, to find the one that crashes its process. */
  readonly oneAtATime: boolean;
  /** Of a suspect lane: the messages up to this position were in flight when the last owner crashed. */
  readonly suspectsUpTo: number;
  /** By this process's monotonic clock; half of the lease is over then. */
  renewAtMs: number;
}

/** What the last claim of a lease found; the limits of the next one depend on it. */
export interface ClaimStats {
  /** Lanes that filled their share of it: the next claim is shared among that many. */
  busyLanes: number;
  /** It found rows of held keys. */
  parking: boolean;
  /** There may be more: it reached its limit, in total or of some lane, or it parked rows. */
  more: boolean;
}

/** Another replica owns the lanes now: nothing of this work may take effect. */
export class LeaseLost extends Error {
  constructor(readonly lanes: readonly number[]) {
    super(`lost lanes ${lanes.join(', ')}`);
    this.name = 'LeaseLost';
  }
}

export function newLease(
  token: string,
  lanes: readonly { readonly lane: number }[],
  renewAtMs: number,
  rest: Partial<Lease>,
): Lease {
  return {
    token,
    lanes: new Set(lanes.map(({ lane }) => lane)),
    oneAtATime: false,
    suspectsUpTo: 0,
    renewAtMs,
    ...beforeAnyClaim(lanes.length),
    ...rest,
  };
}

export function beforeAnyClaim(lanes: number): ClaimStats {
  return { busyLanes: lanes, parking: false, more: true };
}

/** Removes the lanes first: a renewal in flight would take them for lost. If `give` fails, they are added back. */
export async function removeLanes(
  { lanes: leased }: Pick<Lease, 'lanes'>,
  lanes: readonly number[],
  give: () => Promise<unknown>,
): Promise<void> {
  for (const lane of lanes) leased.delete(lane);
  try {
    await give();
  } catch (error) {
    for (const lane of lanes) leased.add(lane);
    throw error;
  }
}

/*
 * What the owner of lanes does with them, for both queues: each lane is passed with the token it was leased under. Lanes
 * are locked in the order of their numbers: an UPDATE by itself locks them in the order its plan happens to find them,
 * and two owners could deadlock. Lanes with other tokens are not locked: a replica that lost its lanes must not wait for
 * the transaction of their new owner.
 */

/** lease.fence — locks the lanes until the transaction ends and returns their tokens. $1 queue, $2 lanes, $3 tokens */
export const FENCE = prepared(`
  SELECT lane, token FROM lane WHERE queue = $1 AND lane = ANY ($2::integer[]) AND token = ANY ($3::uuid[])
  ORDER BY lane FOR NO KEY UPDATE`);

/** lease.renew — extends the leases. $1 queue, $2 lanes, $3 tokens, $4 lease in ms */
export const RENEW = prepared(`
  WITH locked AS MATERIALIZED (
    SELECT lane, token FROM lane WHERE queue = $1 AND lane = ANY ($2::integer[]) AND token = ANY ($3::uuid[])
    ORDER BY lane FOR NO KEY UPDATE
  ),
  mine AS MATERIALIZED (
    SELECT locked.lane FROM locked JOIN unnest($2::integer[], $3::uuid[]) AS leased(lane, token) USING (lane, token)
  )
  UPDATE lane SET leased_until = clock_timestamp() + $4 * interval '1 millisecond'
  WHERE queue = $1 AND lane = ANY (ARRAY(SELECT mine.lane FROM mine)) RETURNING lane`);

/** lease.release — frees the lanes; the next lease does not count as a crash. $1 queue, $2 lanes, $3 tokens */
export const RELEASE = prepared(`
  UPDATE lane SET leased_until = '-infinity', token = NULL, crashes = 0
  WHERE queue = $1 AND lane = ANY ($2::integer[]) AND token = ANY ($3::uuid[])`);

/** A lane, and the token that proves who owns it. */
export interface LaneToken {
  readonly lane: number;
  readonly token: string;
}

export function tokensFor({ token }: { readonly token: string }, lanes: readonly number[]): LaneToken[] {
  return lanes.map((lane) => ({ lane, token }));
}

/** What happens to a lease after it was taken, for both stages: fence, renew, release. */
export class LaneLeases {
  constructor(
    private readonly queue: string,
    private readonly database: Database,
    readonly leaseMs: number,
  ) {}

  /**
   * Locks the lanes until the transaction ends; returns the lost ones, which another replica owns now. A lock, not an update:
   * it leaves nothing to vacuum, even while an old snapshot is open elsewhere.
   */
  async fence<Leased extends LaneToken>(leased: readonly Leased[], tx: Transaction): Promise<Leased[]> {
    if (leased.length === 0) return [];
    const rows = await tx.query<LaneToken>(FENCE, this.pairs(leased));
    const tokens = new Map(rows.map(({ lane, token }) => [lane, token]));
    return leased.filter(({ lane, token }) => tokens.get(lane) !== token);
  }

  /** Extends the leases; returns the lost ones, as `fence` does. */
  async renew<Leased extends LaneToken>(leased: readonly Leased[]): Promise<Leased[]> {
    const rows = await this.database.query<{ lane: number }>(RENEW, [...this.pairs(leased), this.leaseMs]);
    const renewed = new Set(rows.map(({ lane }) => lane));
    return leased.filter(({ lane }) => !renewed.has(lane));
  }

  /** In the transaction that settles the rows claimed from these lanes: until it commits, the lanes are still leased. */
  async release(leased: readonly LaneToken[], tx: Transaction): Promise<void> {
    if (leased.length > 0) await tx.execute(...this.releaseStatement(leased));
  }

  releaseStatement(leased: readonly LaneToken[]): Required<Statement> {
    return [RELEASE, this.pairs(leased)];
  }

  private pairs(leased: readonly LaneToken[]): [queue: string, lanes: number[], tokens: string[]] {
    return [this.queue, leased.map(({ lane }) => lane), leased.map(({ token }) => token)];
  }
}
