import { Injectable } from '@nestjs/common';
import { AWAIT_STANDBYS } from '../database/await-standbys.ts';
import { Database } from '../database/database.ts';
import { FORCE_INDEX_PLANS } from '../database/force-index-plans.ts';
import type { Transaction } from '../database/transaction.ts';
import type { ClaimedDelivery, MessageContent } from './claim/outbox-queue.ts';
import {
  BUSY_LANES,
  BUSY_LANES_OF,
  CONTENT,
  DELIVERED,
  END_AS_DEAD,
  OWN_STAMP,
  PUT_BACK_DELIVERIES,
  RECORD_ATTEMPTS,
  RECORD_LOST,
  STAMPED,
  UNTOUCHED,
} from './outbox.sql.ts';

/** A failed attempt, to be recorded. */
export interface FailedAttempt {
  readonly delivery: ClaimedDelivery;
  readonly status: number | undefined;
  readonly error: string;
  readonly excerpt: string | undefined;
  readonly durationMs: number;
}

/** Free lanes with something to send. */
export interface BusyLanes {
  readonly ready: number[];
  /** Lanes with a hold that is due. */
  readonly due: number[];
  /** Until the next hold is due; infinite if there is none. */
  readonly nextHoldMs: number;
}

/** Rows of the outbox. They are only changed in a transaction that has fenced their lanes. */
@Injectable()
export class OutboxStore {
  constructor(private readonly database: Database) {}

  async busyLanes(closed: readonly number[], after: number, limit: number): Promise<BusyLanes> {
    type Row = { lane: number | null; ms: number | null };
    const rows = await this.database.transaction(async (tx) => {
      const [, found] = await Promise.all([
        this.forceIndexPlans(tx),
        tx.query<Row>(BUSY_LANES, [closed, after, limit]),
      ]);
      return found;
    });
    return {
      ready: rows.flatMap(({ lane, ms }) => (lane !== null && ms === null ? [lane] : [])),
      due: rows.flatMap(({ lane, ms }) => (lane !== null && ms !== null ? [lane] : [])),
      nextHoldMs: rows.find(({ lane }) => lane === null)?.ms ?? Number.POSITIVE_INFINITY,
    };
  }

  async busyLanesOf(listener: number, limit: number): Promise<number[]> {
    const rows = await this.database.query<{ lane: number }>(BUSY_LANES_OF, [listener, limit]);
    return rows.map(({ lane }) => lane);
  }

  async contentOf(deliveries: readonly ClaimedDelivery[]): Promise<Map<number, MessageContent>> {
    const positions = [...new Set(deliveries.map(({ message }) => message))];
    const rows = await this.database.query<MessageContent>(CONTENT, [positions]);
    return new Map(rows.map((row) => [row.position, row]));
  }

  /** For the statements after it in the transaction. */
  async forceIndexPlans(tx: Transaction): Promise<void> {
    await tx.query(FORCE_INDEX_PLANS);
  }

  /** The stamp of the rows that this transaction settles. */
  async stamp(tx: Transaction): Promise<number> {
    const [row] = await tx.query<{ stamp: number }>(OWN_STAMP);
    return row!.stamp;
  }

  /** The deliveries that carry one of the stamps. */
  async stamped(
    deliveries: readonly ClaimedDelivery[],
    stamps: readonly number[],
  ): Promise<{ position: number; stamp: number }[]> {
    const positions = deliveries.map(({ position }) => position);
    const [, rows] = await this.database.inOneRoundTrip([
      [FORCE_INDEX_PLANS],
      [STAMPED, [positions, stamps]],
      [AWAIT_STANDBYS],
    ]);
    return rows as { position: number; stamp: number }[];
  }

  /** Writes the attempts that failed; returns how many of the deliveries were still claimed. */
  async record(tries: readonly FailedAttempt[], tx: Transaction): Promise<number> {
    return tries.length > 0 ? tx.execute(RECORD_ATTEMPTS, recordsOf(tries)) : 0;
  }

  /**
   * Does not need the lane: the calls were made, no matter which replica owns it now. `repeated`: an earlier call may have
   * recorded them, although it failed.
   */
  async recordLost(tries: readonly FailedAttempt[], repeated: boolean): Promise<void> {
    await this.database.execute(RECORD_LOST, [...recordsOf(tries), repeated]);
  }

  /** Ends the deliveries that succeeded; returns how many were still claimed. */
  async delivered(
    tries: readonly {
      delivery: ClaimedDelivery;
      status: number | undefined;
      excerpt: string;
      durationMs: number;
    }[],
    tx: Transaction,
  ): Promise<number> {
    if (tries.length === 0) return 0;
    return tx.execute(DELIVERED, [
      ...rowsOf(tries),
      tries.map(({ status }) => status ?? null),
      tries.map(({ durationMs }) => Math.round(durationMs)),
      tries.map(({ excerpt }) => excerpt || null),
    ]);
  }

  async endAsDead(
    dead: readonly { delivery: ClaimedDelivery; error: string }[],
    tx: Transaction,
  ): Promise<void> {
    if (dead.length === 0) return;
    await tx.execute(END_AS_DEAD, [...rowsOf(dead), dead.map(({ error }) => error)]);
  }

  async putBack(
    rows: readonly { delivery: ClaimedDelivery; error?: string | undefined; counted: boolean }[],
    tx: Transaction,
  ): Promise<void> {
    if (rows.length === 0) return;
    await tx.execute(PUT_BACK_DELIVERIES, [
      ...rowsOf(rows),
      rows.map(({ error }) => error ?? null),
      rows.map(({ counted }) => counted),
    ]);
  }

  async untouched(rows: readonly { delivery: ClaimedDelivery }[], tx: Transaction): Promise<void> {
    if (rows.length > 0) await tx.execute(UNTOUCHED, rowsOf(rows));
  }
}

function recordsOf(tries: readonly FailedAttempt[]): unknown[] {
  return [
    ...rowsOf(tries),
    tries.map(({ status }) => status ?? null),
    tries.map(({ error }) => error),
    tries.map(({ excerpt }) => excerpt || null),
    tries.map(({ durationMs }) => Math.round(durationMs)),
  ];
}

function rowsOf(rows: readonly { delivery: ClaimedDelivery }[]): [positions: number[], attempts: number[]] {
  return [rows.map(({ delivery }) => delivery.position), rows.map(({ delivery }) => delivery.attempt)];
}
