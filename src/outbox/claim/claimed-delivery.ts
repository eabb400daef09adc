import { groupBy } from '../../database/group-by.ts';
import type { LaneRow } from '../../lanes/lease-request.ts';

/** An outbox row that this replica has claimed. */
export interface ClaimedDelivery extends LaneRow {
  readonly id: string;
  readonly listener: number;
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
 * Errors in the record of an attempt whose claim was lost: the first is written by the next holder of the lane, which
 * knows only that a call was in flight; the others by the replica that made the call.
 */
export const OUTCOME_UNKNOWN = 'outcome unknown: its replica died or was cut off';
export const LANE_LOST = 'its replica had lost the lane by then';
export const CLAIM_LOST = 'its claim was gone by then';
