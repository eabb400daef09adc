import { randomUUID } from 'node:crypto';
import { Database } from '../database/database.ts';
import { isDatabaseAway } from '../database/faults.ts';
import type { Transaction } from '../database/transaction.ts';
import { GUARDS } from './guards.ts';
import type { HoldRequest } from './hold-request.ts';
import { type HeldToken, LaneLeases } from './lane-leases.ts';
import {
  COUNT_CRASH,
  claimRows,
  clearHolds,
  FREE_LANES,
  giveBackRows,
  leaseLanes,
  QUEUE_SETTINGS,
  type QueueTable,
  SET_HOLDS,
  takeOver,
} from './lane-queue.sql.ts';
import {
  type ClaimLimits,
  claimLimits,
  type Lease,
  LeaseLost,
  NOTHING_TO_CLAIM,
  newLease,
  removeLanes,
  statsAfter,
} from './lease.ts';
import type { LaneRow, LeasedRows, LeaseRequest, PiggybackLease } from './lease-request.ts';
import { type Unreleased, UnreleasedLanes } from './unreleased-lanes.ts';

/*
 * The lane queue. What holds, always (each has a test in lane-queue.spec.ts):
 *
 *  1. A lane has at most one holder: whoever knows the token in its row. The lease is the claim; a row's
 *     `processing` is only a mark, for people and for counting attempts.
 *  2. Only the holder of a lane changes its rows, parks them or deletes a hold. Inserts aside, and the due time.
 *     Operators set a hold's `until`, or act through one.
 *  3. Work takes effect only in a transaction that began with the fence. Whoever lost the token changes nothing.
 *  4. Lease and claim are two statements of one transaction: the claim sees everything the previous holder did.
 *  5. Rows of a key leave in position order. Rows of a held key are parked; when the hold is due they are taken
 *     from the parked ones, oldest first, and never become ready again.
 *  6. A hold without end is never shortened by a retry, only by an operator.
 *  7. A crash is charged to nobody but a message that was alone in its process's careful hands.
 *  8. A lane that has work, and is nobody's, is found by a look at all lanes, whatever was hinted; all get their turn.
 */

/** A lane that crashed this often in a row is suspect: gone through one message at a time. */
export const SUSPECT_AFTER = 2;
/** More crashes than are counted. */
const NEVER = 32_000;

/** Claims in a row that only park; then the lanes are given a rest, so that their holder can be stopped. */
const MAX_PARKING_CLAIMS = 25;

interface Claimed<Row> {
  readonly rows: Row[];
  /** How many rows of held keys were met. */
  readonly parked: number;
}

export interface LaneQueueOptions {
  readonly lanes: number;
  readonly leaseMs: number;
  readonly replica: string;
  /**
   * Suspect lanes are left to `leaseSuspect`, for whoever handles one at a time in the whole process. Otherwise `lease`
   * gives them out too, each alone.
   */
  readonly suspectsApart?: boolean;
  /** Told how many rows a holder that died had in flight. */
  readonly onTakenOver?: (rows: number) => void;
  /** Told how many lanes are another's now, each once. */
  readonly onLost?: (lanes: number) => void;
}

export class LaneQueue<Row extends LaneRow> {
  readonly leases: LaneLeases;
  private readonly sql;
  private cursor = 0;
  private readonly unreleased = new UnreleasedLanes((owed) => this.giveBackUnreleased(owed));

  constructor(
    readonly name: string,
    private readonly database: Database,
    table: QueueTable,
    private readonly options: LaneQueueOptions,
  ) {
    this.leases = new LaneLeases(name, database, options.leaseMs);
    this.sql = {
      lease: leaseLanes(table, 'all'),
      leaseHinted: leaseLanes(table, 'hinted'),
      takeOver: takeOver(table),
      giveBack: giveBackRows(table),
      claim: claimRows(table),
      clear: clearHolds(table),
    };
  }

  /**
   * Takes free lanes that have work, and their first rows. Undefined: nothing to do. All lanes get their turn: a look
   * without a hint begins where the last one ended.
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

  /** Takes one lane whose last holders died, and its first message. */
  async leaseSuspect(): Promise<LeasedRows<Row> | undefined> {
    await this.unreleased.giveBackAll();
    return this.leaseFrom(0, { hint: undefined, maxLanes: 1, maxRows: 1 }, true);
  }

  /** The same for hinted lanes that surely have work, with the transaction that writes it. */
  piggyback(
    hint: readonly number[],
    request: Pick<LeaseRequest, 'maxLanes' | 'maxRows' | 'maxPerLane'>,
  ): PiggybackLease<Row> {
    const { name } = this;
    const { leaseMs, replica } = this.options;
    const { maxLanes } = request;
    const token = randomUUID();
    const share = claimLimits(request, Math.min(maxLanes, hint.length));
    return {
      statements: [
        [this.sql.leaseHinted, [name, 0, hint, maxLanes, token, leaseMs, replica, 1, false]],
        [this.sql.claim, [name, [token], hint, share.perLane, share.window, share.maxRows]],
      ],
      leased: (answers) => {
        const [lanes, answer] = answers as [LaneRow[], (Row & { parked: number })[]];
        if (lanes.length === 0) return undefined;
        const claimed = claimOf(answer);
        const outlook = statsAfter(share, lanes.length, claimed);
        return { lease: newLease(token, lanes, this.nextRenewal(), outlook), rows: claimed.rows };
      },
      failed: (error) => {
        if (isDatabaseAway(error)) this.unreleased.add(token, error);
      },
    };
  }

  /** The next rows of lanes already held; none of lanes that were lost meanwhile. */
  async claim(lease: Lease, maxRows: number, maxPerLane: number = maxRows): Promise<Row[]> {
    for (let claims = 1; ; claims++) {
      if (performance.now() >= lease.renewAtMs) await this.renew(lease);
      const rows = await this.database.transaction((tx) => {
        void tx.query(QUEUE_SETTINGS);
        return this.claimFor(tx, lease, { maxRows, maxPerLane });
      });
      if (rows.length > 0 || !lease.parking || claims === MAX_PARKING_CLAIMS) return rows;
    }
  }

  /** The same for lanes that were leased one after the other and are held each for itself. */
  async claimForLanes(
    held: readonly { readonly lane: number; readonly token: string }[],
    perLane: number,
  ): Promise<Row[]> {
    const tokens = [...new Set(held.map(({ token }) => token))];
    const lanes = held.map(({ lane }) => lane);
    const { rows } = await this.database.transaction((tx) => {
      void tx.query(QUEUE_SETTINGS);
      return this.claimIn(tx, tokens, lanes, { perLane, window: perLane, maxRows: perLane * lanes.length });
    });
    return rows;
  }

  /** The first statement of every transaction that takes effect. */
  async fence(lease: Lease, lanes: readonly number[], tx: Transaction): Promise<void> {
    if (!GUARDS.fence) return;
    const lost = await this.leases.fence(heldBy(lease, lanes), tx);
    if (lost.length > 0) throw new LeaseLost(lost.map(({ lane }) => lane));
  }

  /** While something outside takes its time. False: some are lost, whatever comes of them will not count. */
  async renew(lease: Lease, lanes: readonly number[] = [...lease.lanes]): Promise<boolean> {
    const gone = await this.leases.renew(heldBy(lease, lanes));
    lease.renewAtMs = this.nextRenewal();
    this.lose(
      lease,
      gone.map(({ lane }) => lane),
    );
    return gone.length === 0;
  }

  /** They turned out to be another's. */
  lose({ lanes: held }: Lease, lanes: readonly number[]): void {
    const lost = lanes.filter((lane) => held.delete(lane));
    if (lost.length > 0) this.options.onLost?.(lost.length);
  }

  /** All that was claimed is settled. */
  async release(lease: Lease, lanes: readonly number[] = [...lease.lanes]): Promise<void> {
    if (lanes.length === 0) return;
    const release = this.leases.releasing(heldBy(lease, lanes));
    await removeLanes(lease, lanes, () => this.database.inOneRoundTrip([[QUEUE_SETTINGS], release]));
  }

  /** The same with the transaction that settles it: until that is committed, the lanes are still held. */
  releaseIn(tx: Transaction, lease: Lease, lanes: readonly number[]): Promise<void> {
    return this.leases.release(heldBy(lease, lanes), tx);
  }

  /** What was claimed and not settled waits again, uncharged; nothing happened. */
  async giveBack(
    lease: Pick<Lease, 'token' | 'lanes'>,
    lanes: readonly number[] = [...lease.lanes],
  ): Promise<void> {
    if (lanes.length === 0) return;
    // All awaited: what failed first is the reason, not what failed because of it.
    const work = (tx: Transaction) =>
      Promise.all([
        tx.query(QUEUE_SETTINGS),
        tx.query(this.sql.giveBack, [this.name, lease.token, NEVER, lanes]),
        tx.execute(FREE_LANES, [this.name, lease.token, lanes]),
      ]);
    await removeLanes(lease, lanes, () => this.database.transaction(work));
  }

  /**
   * The same because of an error that is no message's fault for all we know: as a crash, but without waiting for the
   * lease to end. A message that breaks its connection each time is so found like one that kills its process. Where it is
   * surely nobody's fault (the disk is full), it does not count: it would go on until messages are blamed for it.
   * False: the database is away; it is done before the next lease, or the lease ends.
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
   * Lease, claim and COMMIT in one round trip: what was just posted is on its way two round trips earlier. A hold that
   * has nothing left behind it is cleared away by the next look at the lane.
   */
  private async leaseInOneRoundTrip(
    hint: readonly number[],
    request: LeaseRequest,
  ): Promise<LeasedRows<Row> | undefined> {
    const piggyback = this.piggyback(hint, request);
    const answers = await this.database
      .inOneRoundTrip([[QUEUE_SETTINGS], ...piggyback.statements])
      .catch((error) => {
        piggyback.failed(error);
        throw error;
      });
    return this.claimPastParked(piggyback.leased(answers.slice(1)), request);
  }

  /** Claims on where there was nothing but rows to park. */
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
      ? await tx.query<LaneRow>(this.sql.takeOver, [this.name, token, SUSPECT_AFTER + 1, null])
      : [];
    const suspect = lanes.find(({ crashes }) => crashes >= SUSPECT_AFTER);
    const left = lanes.filter((one) => suspect && one !== suspect).map(({ lane }) => lane);
    if (left.length > 0) void tx.query(FREE_LANES, [this.name, token, left]);
    const lease = newLease(token, suspect ? [suspect] : lanes, this.nextRenewal(), {
      oneAtATime: suspect !== undefined,
      suspectsUpTo: Math.max(0, ...marked.map(({ position }) => position)),
    });
    return { lease, rows: await this.claimFor(tx, lease, request), takenOver: marked.length };
  }

  private async claimFor(
    tx: Transaction,
    lease: Lease,
    { maxRows, maxPerLane }: Pick<LeaseRequest, 'maxRows' | 'maxPerLane'>,
  ): Promise<Row[]> {
    const lanes = [...lease.lanes];
    // All of them were lost meanwhile.
    if (lanes.length === 0) {
      Object.assign(lease, NOTHING_TO_CLAIM);
      return [];
    }
    const wanted = { maxRows: lease.oneAtATime ? 1 : maxRows, maxPerLane };
    const share = claimLimits(wanted, lanes.length, lease);
    const claimed = await this.claimIn(tx, [lease.token], lanes, share);
    Object.assign(lease, statsAfter(share, lanes.length, claimed));
    return claimed.rows;
  }

  private async claimIn(
    tx: Transaction,
    tokens: readonly string[],
    lanes: readonly number[],
    { perLane, window, maxRows }: ClaimLimits,
  ): Promise<Claimed<Row>> {
    if (lanes.length === 0) return { rows: [], parked: 0 };
    const values = [this.name, tokens, lanes, perLane, window, maxRows];
    const [answer] = await Promise.all([
      tx.query<Row & { parked: number }>(this.sql.claim, values),
      tx.execute(this.sql.clear, [this.name, tokens, lanes]),
    ]);
    return claimOf(answer);
  }

  private async giveBackUnreleased({ token, lanes, countsAsCrash: blamed }: Unreleased): Promise<void> {
    const values = [this.name, token, lanes ?? null];
    const chargedFrom = blamed ? SUSPECT_AFTER + 1 : NEVER;
    await this.database.transaction(async (tx) => {
      await Promise.all([
        tx.query(QUEUE_SETTINGS),
        blamed ? tx.execute(COUNT_CRASH, values) : undefined,
        tx.query(this.sql.giveBack, [this.name, token, chargedFrom, lanes ?? null]),
        tx.execute(FREE_LANES, values),
      ]);
    });
  }

  private nextRenewal(): number {
    return performance.now() + this.options.leaseMs / 2;
  }
}

function claimOf<Row extends LaneRow>(answer: (Row & { parked: number })[]): Claimed<Row> {
  const rows = answer.filter(({ position }) => position !== null);
  // RETURNING promises no order.
  return { rows: rows.sort((a, b) => a.position - b.position), parked: answer[0]!.parked };
}

function heldBy({ token }: Pick<Lease, 'token'>, lanes: readonly number[]): HeldToken[] {
  return lanes.map((lane) => ({ lane, token }));
}
