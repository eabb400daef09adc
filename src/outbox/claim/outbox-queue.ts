import { hostname } from 'node:os';
import { Inject, Injectable } from '@nestjs/common';
import { BatchQueue } from '../../clock/batch-queue.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import { isDatabaseAway } from '../../database/errors.ts';
import { groupBy } from '../../database/group-by.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { LaneQueue } from '../../lanes/lane-queue.ts';
import type { LaneRow } from '../../lanes/lane-queue-types.ts';
import type { LeasedLane } from './leased-lane.ts';

/** An outbox row that this replica has claimed. */
export interface ClaimedDelivery extends LaneRow {
  readonly id: string;
  readonly listener: number;
  /** Its position in the inbox. */
  readonly message: number;
  /** Deliveries of one key keep their order; not always the message's key. */
  readonly key: string;
  readonly sequence: number;
  /** Size of the payload. */
  readonly bytes: number;
  readonly attempt: number;
  /** Since the fan-out, or since it was revived or replayed. */
  readonly age_ms: number;
}

export const DELIVERY_COLUMNS = `id, listener, message, key, sequence, bytes, attempt,
  (extract(epoch FROM clock_timestamp() - COALESCE(waits_since, created_at)) * 1000)::bigint AS age_ms`;

/** The message to send, read from the inbox. */
export interface MessageContent {
  readonly position: number;
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly occurred_at: Date | null;
  readonly received_at: Date;
}

export function byLane(rows: readonly ClaimedDelivery[]): Map<number, ClaimedDelivery[]> {
  return new Map(groupBy(rows, ({ lane }) => lane).map((group) => [group[0]!.lane, group]));
}

/*
 * Errors in the record of an attempt whose claim was lost: the first is written by the next owner of the lane, which
 * knows only that a call was in flight; the others by the replica that made the call.
 */
export const OUTCOME_UNKNOWN = 'outcome unknown: its replica died or was cut off';
export const LANE_LOST = 'its replica had lost the lane by then';
export const CLAIM_LOST = 'its claim was gone by then';

/** The attempts of a delivery that is sent twice show why. */
const RECORD_UNKNOWN = `
  INSERT INTO attempt (delivery, attempt, error)
  SELECT position, attempt, '${OUTCOME_UNKNOWN}; it may have arrived' FROM lost
  WHERE NOT EXISTS (SELECT FROM attempt AS known WHERE known.delivery = lost.position
                      AND known.attempt = lost.attempt AND known.error LIKE '%; ${LANE_LOST}')
  RETURNING delivery AS position`;

/** The deliveries of all listeners as one lane queue; each listener has a range of its lanes. */
@Injectable()
export class OutboxQueue {
  readonly lanes: LaneQueue<ClaimedDelivery>;

  constructor(database: Database, metrics: LaneMetrics, @Inject(SETTINGS_TOKEN) settings: Settings) {
    const table = { table: 'outbox', columns: DELIVERY_COLUMNS, onTakeOver: RECORD_UNKNOWN };
    this.lanes = new LaneQueue('outbox', database, table, {
      lanes: Number.MAX_SAFE_INTEGER,
      leaseMs: settings.outboxLease,
      replica: `${hostname()}:${process.pid}`,
      onTakenOver: (rows) => metrics.takenOver('outbox', rows),
    });
  }
}

interface ClaimRequest {
  readonly leased: LeasedLane;
  resolve(rows: ClaimedDelivery[]): void;
  reject(error: unknown): void;
}

/**
 * Max rows of one claim. A claim takes as long as sending that many rows: if one claim served all lanes, all would wait
 * for it together, send together and be empty together. With several claims in turn, some lanes are always sending.
 */
const MAX_ROWS = 1_024;

/** Leased lanes that have sent everything claim more together: requests that arrive during a claim share the next one. */
@Injectable()
export class ClaimQueue {
  private readonly requests = new BatchQueue<ClaimRequest>(() => this.claimNext());

  constructor(private readonly queue: OutboxQueue) {}

  next(leased: LeasedLane): Promise<ClaimedDelivery[]> {
    return new Promise((resolve, reject) => this.requests.add({ leased, resolve, reject }));
  }

  private async claimNext(): Promise<void> {
    this.dropExpired();
    if (this.requests.items.length > 0) await this.claim(this.takeBatch());
  }

  /** A request may wait for a while: a lane that was lost meanwhile, or whose time is up, gets nothing more. */
  private dropExpired(): void {
    const now = performance.now();
    const { items } = this.requests;
    const expired = items.filter(({ leased }) => leased.lost || now >= leased.untilMs);
    this.requests.items = items.filter((request) => !expired.includes(request));
    for (const { resolve } of expired) resolve([]);
  }

  /** The oldest request, and later ones for the same number of rows. */
  private takeBatch(): ClaimRequest[] {
    const { items } = this.requests;
    const perLane = items[0]!.leased.maxRows;
    const maxLanes = Math.max(1, Math.floor(MAX_ROWS / perLane));
    const batch = items.filter(({ leased }) => leased.maxRows === perLane).slice(0, maxLanes);
    this.requests.items = items.filter((request) => !batch.includes(request));
    return batch;
  }

  private async claim(batch: readonly ClaimRequest[]): Promise<void> {
    const perLane = batch[0]!.leased.maxRows;
    try {
      const rows = await this.queue.lanes.claimForLanes(
        batch.map(({ leased }) => leased),
        perLane,
      );
      const lanes = byLane(rows);
      for (const { leased, resolve } of batch) resolve(lanes.get(leased.lane) ?? []);
    } catch (error) {
      for (const { reject } of batch) reject(error);
      // Each further claim could take half a minute to find out the same.
      if (isDatabaseAway(error)) for (const { reject } of this.requests.items.splice(0)) reject(error);
    }
  }
}
