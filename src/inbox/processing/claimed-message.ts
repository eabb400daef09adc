import type { LaneRow } from '../../lanes/lane-queue.ts';
import { PAYLOAD_IF_SMALL } from './payloads.sql.ts';

/** An inbox row in the hands of this replica. */
export interface ClaimedMessage extends LaneRow {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly attempt: number;
  /** JSON text; empty until it is loaded, where it did not come with the claim. */
  readonly payload: string;
  /** Of a payload that did not come with the claim; else 0. */
  readonly bytes: number;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly occurred_at: Date | null;
  readonly received_at: Date;
  readonly expires_at: Date | null;
  /** Its time had run out when it was claimed. */
  readonly expired: boolean;
}

/** What a claim of the inbox returns. */
export const CLAIMED_COLUMNS = `id, source, type, key, attempt, ${PAYLOAD_IF_SMALL}, headers, occurred_at, received_at,
  expires_at, COALESCE(expires_at <= clock_timestamp(), false) AS expired`;
