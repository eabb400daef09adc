import { randomUUID } from 'node:crypto';
import { Database } from '../database/database.ts';
import { isRefusingEverybody } from '../database/faults.ts';
import type { Transaction } from '../database/transaction.ts';
import { GUARDS } from './guards.ts';
import {
  BLAME_LANES,
  claimRows,
  clearHolds,
  FENCE_LANES,
  giveBackRows,
  LEAVE_LANES,
  leaseLanes,
  QUEUE_SETTINGS,
  type QueueTable,
  RELEASE_LANES,
  RENEW_LANES,
  SET_HOLDS,
  takeOver,
} from './lane-queue.sql.ts';

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

/** However empty the other lanes of a tenure are, one with a long backlog gets no more than this part of a claim: they wait for it. */
const FEWEST_SHARES = 4;

/** Ready rows of a lane that a claim looks at while it meets rows it must park. */
const PARKING_WINDOW = 1_000;
/** Claims in a row that only park; then the lanes are given a rest, so that their holder can be stopped. */
const MOST_PARKING_CLAIMS = 25;

/** Lanes held by one worker, under one token, for a while. */
export interface Tenure {
  readonly token: string;
  /** Lanes still held; shrinks as lanes are lost or given away. */
  readonly lanes: Set<number>;
  /** One suspect lane, one message at a time, to find the one that kills. */
  readonly careful: boolean;
  /** What a careful tenure is for: the messages up to this position were in flight when the last holder died. */
  readonly suspectsUpTo: number;
  /** By our own monotonic clock; renewed before half of it is over. */
  renewAtMs: number;
  /** Lanes that had their full share of the last claim: the next one is shared among as many. */
  busyLanes: number;
  /** The last claim met rows of held keys. */
  parking: boolean;
  /** The last claim got all it wanted of some lane, or had to park: there may be more. */
  more: boolean;
}

export interface LaneRow {
  readonly position: number;
  readonly lane: number;
  /** Where the claimed row lies (ctid), until its holder changes it. */
  readonly place: string;
}

export type HoldReason = 'retry' | 'deferred' | 'rate' | 'dead-letter' | 'operator';

export interface HoldRequest {
  readonly key: string;
  readonly lane: number;
  /** Milliseconds from now; undefined: without end. */
  readonly forMs: number | undefined;
  readonly reason: HoldReason;
}

/** Another replica owns the lanes now: nothing of this work may take effect. */
export class LeaseLost extends Error {
  constructor(readonly lanes: readonly number[]) {
    super(`lost lanes ${lanes.join(', ')}`);
    this.name = 'LeaseLost';
  }
}

export interface LeaseRequest {
  /** Only these lanes; undefined: all, from the cursor on. */
  readonly hint: readonly number[] | undefined;
  readonly mostLanes: number;
  readonly mostRows: number;
  /** However few lanes were free. */
  readonly mostPerLane?: number;
  /** For hinted lanes that surely have work; those that anybody crashed in are left to a look that is not quick. */
  readonly quick?: boolean;
}

export interface Leased<Row> {
  readonly tenure: Tenure;
  readonly rows: Row[];
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
}

/** Lanes to give back: all of a token where it is not known which. */
interface Owed {
  readonly token: string;
  readonly lanes: readonly number[] | undefined;
  readonly blamed: boolean;
}

export class LaneQueue<Row extends LaneRow> {
  private readonly sql;
  private cursor = 0;
  /** What could not be given back because the database was away. */
  private owed: Owed[] = [];

  constructor(
    readonly name: string,
    private readonly database: Database,
    table: QueueTable,
    private readonly options: LaneQueueOptions,
  ) {
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
  async lease(request: LeaseRequest): Promise<Leased<Row> | undefined> {
    await this.giveBackOwed();
    if (request.hint && request.quick) return this.leaseQuickly(request.hint, request);
    if (request.hint) return this.leaseFrom(0, request);
    const from = this.cursor;
    const leased =
      (await this.leaseFrom(from, request)) ?? (from > 0 ? await this.leaseFrom(0, request) : undefined);
    const full = leased !== undefined && leased.tenure.lanes.size === request.mostLanes;
    this.cursor = full ? (Math.max(...leased.tenure.lanes) + 1) % this.options.lanes : 0;
    return leased;
  }

  /** Takes one lane whose last holders died, and its first message. */
  async leaseSuspect(): Promise<Leased<Row> | undefined> {
    await this.giveBackOwed();
    return this.leaseFrom(0, { hint: undefined, mostLanes: 1, mostRows: 1 }, true);
  }

  /** The next rows of lanes already held; none of lanes that were lost meanwhile. */
  async claim(tenure: Tenure, mostRows: number, mostPerLane: number = mostRows): Promise<Row[]> {
    for (let claims = 1; ; claims++) {
      if (performance.now() >= tenure.renewAtMs) await this.renew(tenure);
      const rows = await this.database.transaction((tx) => {
        void tx.query(QUEUE_SETTINGS);
        return this.claimFor(tx, tenure, { mostRows, mostPerLane });
      });
      if (rows.length > 0 || !tenure.parking || claims === MOST_PARKING_CLAIMS) return rows;
    }
  }

  /** The same for lanes that were leased one after the other and are held each for itself. */
  async claimTogether(
    held: readonly { readonly lane: number; readonly token: string }[],
    perLane: number,
  ): Promise<Row[]> {
    const tokens = [...new Set(held.map(({ token }) => token))];
    const lanes = held.map(({ lane }) => lane);
    const { rows } = await this.database.transaction((tx) => {
      void tx.query(QUEUE_SETTINGS);
      return this.claimIn(tx, tokens, lanes, { perLane, window: perLane, mostRows: perLane * lanes.length });
    });
    return rows;
  }

  /** The first statement of every transaction that takes effect. */
  async fence(tenure: Tenure, lanes: readonly number[], tx: Transaction): Promise<void> {
    if (!GUARDS.fence) return;
    const kept = await tx.query<{ lane: number }>(FENCE_LANES, [this.name, lanes, tenure.token]);
    if (kept.length === lanes.length) return;
    const still = new Set(kept.map(({ lane }) => lane));
    throw new LeaseLost(lanes.filter((lane) => !still.has(lane)));
  }

  /** While something outside takes its time. False: some are lost, whatever comes of them will not count. */
  async renew(tenure: Tenure, lanes: readonly number[] = [...tenure.lanes]): Promise<boolean> {
    const values = [this.name, lanes, tenure.token, this.options.leaseMs];
    const kept = await this.database.query<{ lane: number }>(RENEW_LANES, values);
    tenure.renewAtMs = this.nextRenewal();
    const still = new Set(kept.map(({ lane }) => lane));
    for (const lane of lanes) if (!still.has(lane)) tenure.lanes.delete(lane);
    return still.size === lanes.length;
  }

  /** All that was claimed is settled. */
  async release(tenure: Tenure, lanes: readonly number[] = [...tenure.lanes]): Promise<void> {
    if (lanes.length === 0) return;
    await this.database.together([[QUEUE_SETTINGS], [RELEASE_LANES, [this.name, lanes, tenure.token]]]);
    for (const lane of lanes) tenure.lanes.delete(lane);
  }

  /** The same with the transaction that settles it: until that is committed, the lanes are still held. */
  async releaseIn(tx: Transaction, { token }: Tenure, lanes: readonly number[]): Promise<void> {
    if (lanes.length > 0) await tx.execute(RELEASE_LANES, [this.name, lanes, token]);
  }

  /** What was claimed and not settled waits again, uncharged; nothing happened. */
  async giveBack(
    tenure: Pick<Tenure, 'token' | 'lanes'>,
    lanes: readonly number[] = [...tenure.lanes],
  ): Promise<void> {
    if (lanes.length === 0) return;
    await this.database.transaction(async (tx) => {
      void tx.query(QUEUE_SETTINGS);
      void tx.query(this.sql.giveBack, [this.name, tenure.token, NEVER, lanes]);
      await tx.execute(LEAVE_LANES, [this.name, tenure.token, lanes]);
    });
    for (const lane of lanes) tenure.lanes.delete(lane);
  }

  /**
   * The same because of an error that is no message's fault for all we know: as a crash, but without waiting for the
   * lease to end. A message that breaks its connection each time is so found like one that kills its process. Where it is
   * surely nobody's fault (the disk is full), it does not count: it would go on until messages are blamed for it.
   * False: the database is away; it is done before the next lease, or the lease ends.
   */
  async abandon(tenure: Tenure, error: unknown): Promise<boolean> {
    const blamed = !isRefusingEverybody(error);
    if (tenure.lanes.size > 0) this.owed.push({ token: tenure.token, lanes: [...tenure.lanes], blamed });
    tenure.lanes.clear();
    return this.giveBackOwed().then(
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
  ): Promise<Leased<Row> | undefined> {
    const token = randomUUID();
    try {
      const leased = await this.database.transaction((tx) =>
        this.leaseIn(tx, token, first, request, suspects),
      );
      if (!leased || leased.rows.length > 0 || !leased.tenure.parking) return leased;
      const { mostRows, mostPerLane } = request;
      return { tenure: leased.tenure, rows: await this.claim(leased.tenure, mostRows, mostPerLane) };
    } catch (error) {
      // The commit may have happened: then these lanes are ours, and nobody knows.
      this.owed.push({ token, lanes: undefined, blamed: !isRefusingEverybody(error) });
      throw error;
    }
  }

  /**
   * Lease, claim and COMMIT in one round trip: what was just posted is on its way two round trips earlier. A hold that
   * has nothing left behind it is cleared away by the next look at the lane.
   */
  private async leaseQuickly(
    hint: readonly number[],
    { mostLanes, mostRows, mostPerLane = mostRows }: LeaseRequest,
  ): Promise<Leased<Row> | undefined> {
    const { name } = this;
    const { leaseMs, replica } = this.options;
    const token = randomUUID();
    const share = Math.floor(mostRows / Math.min(mostLanes, hint.length));
    const perLane = Math.max(1, Math.min(mostPerLane, share));
    try {
      const [, lanes, claimed] = (await this.database.together([
        [QUEUE_SETTINGS],
        [this.sql.leaseHinted, [name, 0, hint, mostLanes, token, leaseMs, replica, 1, false]],
        [this.sql.claim, [name, [token], hint, perLane, perLane, mostRows]],
      ])) as [unknown, LaneRow[], (Row & { parked: number })[]];
      if (lanes.length === 0) return undefined;
      const { rows, parked } = claimOf(claimed);
      const tenure = this.tenureOf(token, lanes, {
        parking: parked > 0,
        more: parked > 0 || busyLanes(rows, perLane) > 0,
      });
      if (rows.length > 0 || !tenure.parking) return { tenure, rows };
      return { tenure, rows: await this.claim(tenure, mostRows, mostPerLane) };
    } catch (error) {
      this.owed.push({ token, lanes: undefined, blamed: !isRefusingEverybody(error) });
      throw error;
    }
  }

  private tenureOf(token: string, lanes: readonly { lane: number }[], more: Partial<Tenure>): Tenure {
    return {
      token,
      lanes: new Set(lanes.map(({ lane }) => lane)),
      careful: false,
      suspectsUpTo: 0,
      renewAtMs: this.nextRenewal(),
      busyLanes: lanes.length,
      parking: false,
      more: true,
      ...more,
    };
  }

  private async leaseIn(
    tx: Transaction,
    token: string,
    first: number,
    request: LeaseRequest,
    suspects: boolean | null,
  ): Promise<Leased<Row> | undefined> {
    void tx.query(QUEUE_SETTINGS);
    const { leaseMs, replica } = this.options;
    const sql = request.hint ? this.sql.leaseHinted : this.sql.lease;
    const lanes = await tx.query<{ lane: number; crashes: number }>(sql, [
      this.name,
      first,
      request.hint ?? null,
      request.mostLanes,
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
    if (marked.length > 0) this.options.onTakenOver?.(marked.length);
    const suspect = lanes.find(({ crashes }) => crashes >= SUSPECT_AFTER);
    const left = lanes.filter((one) => suspect && one !== suspect).map(({ lane }) => lane);
    if (left.length > 0) void tx.query(LEAVE_LANES, [this.name, token, left]);
    const tenure = this.tenureOf(token, suspect ? [suspect] : lanes, {
      careful: suspect !== undefined,
      suspectsUpTo: Math.max(0, ...marked.map(({ position }) => position)),
      busyLanes: lanes.length,
    });
    return { tenure, rows: await this.claimFor(tx, tenure, request) };
  }

  /** Shares what is wanted among the lanes: those that were nearly empty leave their share to the others. */
  private async claimFor(
    tx: Transaction,
    tenure: Tenure,
    { mostRows, mostPerLane = mostRows }: Pick<LeaseRequest, 'mostRows' | 'mostPerLane'>,
  ): Promise<Row[]> {
    const lanes = [...tenure.lanes];
    const most = tenure.careful ? 1 : mostRows;
    const share = Math.floor(most / Math.min(Math.max(tenure.busyLanes, FEWEST_SHARES), lanes.length));
    const perLane = Math.max(1, Math.min(mostPerLane, share));
    const window = tenure.parking ? Math.max(perLane, PARKING_WINDOW) : perLane;
    const { rows, parked } = await this.claimIn(tx, [tenure.token], lanes, {
      perLane,
      window,
      mostRows: most,
    });
    tenure.parking = parked > 0;
    tenure.more = parked > 0 || rows.length >= most || busyLanes(rows, perLane) > 0;
    tenure.busyLanes = Math.max(1, busyLanes(rows, Math.floor(most / lanes.length)));
    return rows;
  }

  private async claimIn(
    tx: Transaction,
    tokens: readonly string[],
    lanes: readonly number[],
    { perLane, window, mostRows }: { perLane: number; window: number; mostRows: number },
  ): Promise<{ rows: Row[]; parked: number }> {
    if (lanes.length === 0) return { rows: [], parked: 0 };
    const [answer] = await Promise.all([
      tx.query<Row & { parked: number }>(this.sql.claim, [
        this.name,
        tokens,
        lanes,
        perLane,
        window,
        mostRows,
      ]),
      tx.execute(this.sql.clear, [this.name, tokens, lanes]),
    ]);
    return claimOf(answer);
  }

  private async giveBackOwed(): Promise<void> {
    while (this.owed.length > 0) {
      const owed = this.owed[0]!;
      await this.database.transaction(async (tx) => {
        const values = [this.name, owed.token, owed.lanes ?? null];
        const chargedFrom = owed.blamed ? SUSPECT_AFTER + 1 : NEVER;
        await Promise.all([
          tx.query(QUEUE_SETTINGS),
          owed.blamed ? tx.execute(BLAME_LANES, values) : undefined,
          tx.query(this.sql.giveBack, [this.name, owed.token, chargedFrom, owed.lanes ?? null]),
          tx.execute(LEAVE_LANES, values),
        ]);
      });
      this.owed = this.owed.filter((one) => one !== owed);
    }
  }

  private nextRenewal(): number {
    return performance.now() + this.options.leaseMs / 2;
  }
}

function claimOf<Row extends LaneRow>(answer: (Row & { parked: number })[]): { rows: Row[]; parked: number } {
  const rows = answer.filter(({ position }) => position !== null);
  // RETURNING promises no order.
  return { rows: rows.sort((a, b) => a.position - b.position), parked: answer[0]!.parked };
}

/** Lanes that gave at least their share: the others are nearly empty and need less. */
function busyLanes(rows: readonly LaneRow[], share: number): number {
  const counts = new Map<number, number>();
  for (const { lane } of rows) counts.set(lane, (counts.get(lane) ?? 0) + 1);
  return [...counts.values()].filter((count) => count >= Math.max(1, share)).length;
}
