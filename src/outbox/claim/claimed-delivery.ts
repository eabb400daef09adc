import type { LaneRow } from '../../lanes/lease-request.ts';

/** An outbox row in the hands of this replica. */
export interface ClaimedDelivery extends LaneRow {
  readonly id: string;
  readonly listener: number;
  readonly message: number;
  /** What keeps order; not always the message's key. */
  readonly key: string;
  readonly sequence: number;
  /** Of its payload. */
  readonly bytes: number;
  readonly attempt: number;
  /** Since it was owed, or owed again. */
  readonly age_ms: number;
}

export const DELIVERY_COLUMNS = `id, listener, message, key, sequence, bytes, attempt,
  (extract(epoch FROM clock_timestamp() - COALESCE(waits_since, created_at)) * 1000)::bigint AS age_ms`;

/** What is sent, read from the inbox. */
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
  const lanes = new Map<number, ClaimedDelivery[]>();
  for (const row of rows) {
    const known = lanes.get(row.lane);
    if (known) known.push(row);
    else lanes.set(row.lane, [row]);
  }
  return lanes;
}
