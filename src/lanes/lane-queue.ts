import { randomUUID } from 'node:crypto';
import { Database } from '../database/database.ts';
import { isDatabaseAway } from '../database/errors.ts';
import type { Transaction } from '../database/transaction.ts';
import { claimedOf, claimLimits, LaneClaims, statsAfter } from './lane-claims.ts';
import {
  FREE_LANES,
  FREE_STATEMENTS,
  QUEUE_SETTINGS,
  type QueueTable,
  queueStatements,
  SET_HOLDS,
} from './lane-queue.sql.ts';
import type {
  HoldRequest,
  LaneQueueOptions,
  LaneRow,
  LeasedRows,
  LeaseRequest,
  PiggybackLease,
} from './lane-queue-types.ts';
import {
  COUNTED_AFTER,
  GUARDS,
  LaneLeases,
  type LaneToken,
  type Lease,
  LeaseLost,
  newLease,
  removeLanes,
  SUSPECT_AFTER,
  tokensFor,
} from './lease.ts';
import { UnreleasedLanes } from './unreleased-lanes.ts';

/** Claims in a row that only park rows; after that many the lanes are released, so that their owner can be stopped. */
const MAX_PARKING_CLAIMS = 25;

/**
 * A queue in lanes; README.md explains the words, the states of a row, and what always holds. The inbox and the outbox are
 * one each.
 */
export class LaneQueue<Row extends LaneRow> {
  readonly leases: LaneLeases;
  private readonly sql;
  private cursor = 0;
  private readonly claims: LaneClaims<Row>;
  private readonly unreleased: UnreleasedLanes;

  constructor(
    readonly name: string,
    private readonly database: Database,
    table: QueueTable,
    private readonly options: LaneQueueOptions,
  ) {
    this.leases = new LaneLeases(name, database, options.leaseMs);
    this.sql = queueStatements(table);
    this.claims = new LaneClaims(name, this.sql);
    this.unreleased = new UnreleasedLanes(name, database, this.sql, FREE_STATEMENTS);
  }

  /**
   * Leases free lanes that have work, and claims their first rows. Undefined: there is no such lane. Every lane gets its
   * turn: a scan without a hint starts where the last one ended.
   */
  async lease(request: LeaseRequest): Promise<LeasedRows<Row> | undefined> {
    await this.unreleased.giveBackAll();
    const { hint } = request;
    if (hint && request.quick) return this.leaseInOneRoundTrip(hint, request);
    if (hint) return this.leaseFrom(0, request);
    const from = this.cursor;
    const leased =
      (await this.leaseFrom(from, request)) ?? (from > 0 ? await this.leaseFrom(0, request) : undefined);
    const full = leased !== undefined && leased.lease.lanes.size === request.maxLanes;
    this.cursor = full ? (Math.max(...leased.lease.lanes) + 1) % this.options.lanes : 0;
    return leased;
  }

  /** Leases one lane whose last owners crashed, and claims its first message. */
  async leaseSuspect(): Promise<LeasedRows<Row> | undefined> {
    await this.unreleased.giveBackAll();
    return this.leaseFrom(0, { hint: undefined, maxLanes: 1, maxRows: 1 }, true);
  }

  /** Leases and claims hinted lanes in the transaction that writes to them. */
  piggyback(
    hint: readonly number[],
    request: Pick<LeaseRequest, 'maxLanes' | 'maxRows' | 'maxPerLane'>,
  ): PiggybackLease<Row> {
    const { name } = this;
    const { leaseMs, replica } = this.options;
    const { maxLanes } = request;
    const token = randomUUID();
    const limits = claimLimits(request, Math.min(maxLanes, hint.length));
    return {
      statements: [
        [this.sql.leaseHinted, [name, 0, hint, maxLanes, token, leaseMs, replica, 1, false]],
        this.claims.statement([token], hint, limits),
      ],
      leased: (results) => {
        const [lanes, result] = results as [LaneRow[], (Row & { parked: number })[]];
        if (lanes.length === 0) return undefined;
        const claimed = claimedOf(result);
        const stats = statsAfter(limits, lanes.length, claimed);
        return { lease: newLease(token, lanes, this.nextRenewal(), stats), rows: claimed.rows };
      },
      failed: (error) => {
        if (isDatabaseAway(error)) this.unreleased.add(token, error);
      },
    };
  }

  /** Claims the next rows of lanes already leased, and none of lanes that were lost since. */
  async claim(lease: Lease, maxRows: number, maxPerLane: number = maxRows): Promise<Row[]> {
    for (let claims = 1; ; claims++) {
      if (performance.now() >= lease.renewAtMs) await this.renew(lease);
      const rows = await this.database.transaction((tx) => {
        void tx.query(QUEUE_SETTINGS);
        return this.claims.forLease(tx, lease, { maxRows, maxPerLane });
      });
      if (rows.length > 0 || !lease.parking || claims === MAX_PARKING_CLAIMS) return rows;
    }
  }

  /** The same for lanes that were leased one after the other, each under a token of its own. */
  async claimForLanes(leased: readonly LaneToken[], perLane: number): Promise<Row[]> {
    const tokens = [...new Set(leased.map(({ token }) => token))];
    const lanes = leased.map(({ lane }) => lane);
    const { rows } = await this.database.transaction((tx) => {
      void tx.query(QUEUE_SETTINGS);
      const limits = { perLane, window: perLane, maxRows: perLane * lanes.length };
      return this.claims.forTokens(tx, tokens, lanes, limits);
    });
    return rows;
  }

  /** The first statement of every transaction that takes effect. */
  async fence(lease: Lease, lanes: readonly number[], tx: Transaction): Promise<void> {
    if (!GUARDS.fence) return;
    const lost = await this.leases.fence(tokensFor(lease, lanes), tx);
    if (lost.length > 0) throw new LeaseLost(lost.map(({ lane }) => lane));
  }

  /** For work that takes long. False: some lanes are lost, and work on them will not take effect. */
  async renew(lease: Lease, lanes: readonly number[] = [...lease.lanes]): Promise<boolean> {
    const lost = await this.leases.renew(tokensFor(lease, lanes));
    lease.renewAtMs = this.nextRenewal();
    this.lose(
      lease,
      lost.map(({ lane }) => lane),
    );
    return lost.length === 0;
  }

  /** Takes lanes that another replica owns now out of the lease. */
  lose({ lanes: leased }: Lease, lanes: readonly number[]): void {
    const lost = lanes.filter((lane) => leased.delete(lane));
    if (lost.length > 0) this.options.onLost?.(lost.length);
  }

  /** Everything that was claimed from these lanes must be settled. */
  async release(lease: Lease, lanes: readonly number[] = [...lease.lanes]): Promise<void> {
    if (lanes.length === 0) return;
    const release = this.leases.releaseStatement(tokensFor(lease, lanes));
    await removeLanes(lease, lanes, () => this.database.inOneRoundTrip([[QUEUE_SETTINGS], release]));
  }

  /** The same in the transaction that settles the rows: until it commits, the lanes are still leased. */
  releaseIn(tx: Transaction, lease: Lease, lanes: readonly number[]): Promise<void> {
    return this.leases.release(tokensFor(lease, lanes), tx);
  }

  /** Frees lanes whose claimed rows were not settled: the rows become ready or held again, and the attempt is not counted. */
  async giveBack(
    lease: Pick<Lease, 'token' | 'lanes'>,
    lanes: readonly number[] = [...lease.lanes],
  ): Promise<void> {
    if (lanes.length === 0) return;
    const { token } = lease;
    await removeLanes(lease, lanes, () => this.unreleased.giveBack({ token, lanes, countsAsCrash: false }));
  }

  /**
   * The same after an error that no message is known to have caused: it counts as a crash, but nothing waits for the
   * lease to expire. A message that breaks its connection each time is found this way, like one that kills its process. An
   * error that no message can have caused (the disk is full) does not count: if it lasted, it would use up the attempts of messages.
   * False: the database is unreachable; the lanes are given back before the next lease, or the lease expires.
   */
  async abandon(lease: Lease, error: unknown): Promise<boolean> {
    if (lease.lanes.size > 0) this.unreleased.add(lease.token, error, [...lease.lanes]);
    lease.lanes.clear();
    return this.unreleased.giveBackAll().then(
      () => true,
      () => false,
    );
  }

  async hold(requests: readonly HoldRequest[], tx: Transaction): Promise<void> {
    if (requests.length === 0) return;
    await tx.execute(SET_HOLDS, [
      this.name,
      requests.map(({ key }) => key),
      requests.map(({ lane }) => lane),
      requests.map(({ forMs }) => forMs ?? null),
      requests.map(({ reason }) => reason),
    ]);
  }

  private async leaseFrom(
    first: number,
    request: LeaseRequest,
    suspects: boolean | null = this.options.suspectsApart ? false : null,
  ): Promise<LeasedRows<Row> | undefined> {
    const token = randomUUID();
    const lease = (tx: Transaction) => this.leaseIn(tx, token, first, request, suspects);
    const leased = await this.unreleased.addOnFailure(token, () => this.database.transaction(lease));
    if (leased && leased.takenOver > 0) this.options.onTakenOver?.(leased.takenOver);
    return this.claimPastParked(leased, request);
  }

  /**
   * Lease, claim and COMMIT in one round trip: a message that was just posted is processed two round trips earlier. Holds
   * that have nothing left behind them are not cleared here, but by the next claim from the lane.
   */
  private async leaseInOneRoundTrip(
    hint: readonly number[],
    request: LeaseRequest,
  ): Promise<LeasedRows<Row> | undefined> {
    const piggyback = this.piggyback(hint, request);
    const results = await this.database
      .inOneRoundTrip([[QUEUE_SETTINGS], ...piggyback.statements])
      .catch((error) => {
        piggyback.failed(error);
        throw error;
      });
    return this.claimPastParked(piggyback.leased(results.slice(1)), request);
  }

  /** Continues to claim where the first claim found nothing but rows to park. */
  private async claimPastParked(
    leased: LeasedRows<Row> | undefined,
    { maxRows, maxPerLane }: LeaseRequest,
  ): Promise<LeasedRows<Row> | undefined> {
    if (!leased || leased.rows.length > 0 || !leased.lease.parking) return leased;
    const { lease } = leased;
    const claim = () => this.claim(lease, maxRows, maxPerLane);
    return { lease, rows: await this.unreleased.addOnFailure(lease.token, claim) };
  }

  private async leaseIn(
    tx: Transaction,
    token: string,
    first: number,
    request: LeaseRequest,
    suspects: boolean | null,
  ): Promise<(LeasedRows<Row> & { readonly takenOver: number }) | undefined> {
    void tx.query(QUEUE_SETTINGS);
    const { leaseMs, replica } = this.options;
    const sql = request.hint ? this.sql.leaseHinted : this.sql.lease;
    const lanes = await tx.query<{ lane: number; crashes: number }>(sql, [
      this.name,
      first,
      request.hint ?? null,
      request.maxLanes,
      token,
      leaseMs,
      replica,
      SUSPECT_AFTER,
      suspects,
    ]);
    if (lanes.length === 0) return undefined;
    const marked = lanes.some(({ crashes }) => crashes > 0)
      ? await tx.query<{ position: number }>(this.sql.takeOver, [this.name, token, COUNTED_AFTER, null])
      : [];
    const suspect = lanes.find(({ crashes }) => crashes >= SUSPECT_AFTER);
    const others = lanes.filter((one) => suspect && one !== suspect).map(({ lane }) => lane);
    if (others.length > 0) void tx.query(FREE_LANES, [this.name, token, others]);
    const lease = newLease(token, suspect ? [suspect] : lanes, this.nextRenewal(), {
      oneAtATime: suspect !== undefined,
      suspectsUpTo: Math.max(0, ...marked.map(({ position }) => position)),
    });
    return { lease, rows: await this.claims.forLease(tx, lease, request), takenOver: marked.length };
  }

  private nextRenewal(): number {
    return performance.now() + this.options.leaseMs / 2;
  }
}
