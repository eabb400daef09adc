import type { LaneRow } from '../../lanes/lane-queue.ts';

/** An inbox row in the hands of this replica. */
export interface ClaimedMessage extends LaneRow {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly attempt: number;
  /** JSON text. */
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly occurred_at: Date | null;
  readonly received_at: Date;
  readonly expires_at: Date | null;
  /** Its time had run out when it was claimed. */
  readonly expired: boolean;
}

/** What a claim of the inbox returns. */
export const CLAIMED_COLUMNS = `id, source, type, key, attempt, payload::text AS payload, headers, occurred_at, received_at,
  expires_at, COALESCE(expires_at <= clock_timestamp(), false) AS expired`;
