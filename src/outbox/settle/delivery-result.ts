import type { Listener } from '../../listeners/listener.ts';
import type { CallResult } from '../../webhooks/call-result.ts';
import type { LeasedLane } from '../claim/leased-lane.ts';
import type { ClaimedDelivery } from '../claim/outbox-queue.ts';
import type { Outcome } from '../send/outcome.ts';

/** A delivery was sent, with this result and outcome. */
export interface SentDelivery {
  readonly kind: 'sent';
  readonly leased: LeasedLane;
  readonly delivery: ClaimedDelivery;
  readonly listener: Listener;
  readonly callResult: CallResult;
  readonly outcome: Outcome;
  /** When the response arrived, by this replica's clock. */
  readonly atMs: number;
}

/** The result of a claimed delivery, to be written. */
export type Result =
  | SentDelivery
  /** Cannot be sent, now or later. */
  | {
      readonly kind: 'unsendable';
      readonly leased: LeasedLane;
      readonly delivery: ClaimedDelivery;
      readonly listener: Listener;
      readonly reason: string;
    }
  /** Not sent: an earlier delivery of its key waits. */
  | { readonly kind: 'behind'; readonly leased: LeasedLane; readonly delivery: ClaimedDelivery }
  /** Not sent: the run had to stop. */
  | { readonly kind: 'untouched'; readonly leased: LeasedLane; readonly delivery: ClaimedDelivery };

/**
 * Added after the results of one claim: it resolves when all earlier results of its lane are written. With `release`, the
 * lane is released with them and its run is over; without, the run claims more.
 */
export interface RunEnd {
  readonly kind: 'end';
  readonly leased: LeasedLane;
  readonly release: boolean;
  resolve(): void;
}

/** What is written in batches. */
export type Item = Result | RunEnd;

export function resultsOf(items: readonly Item[]): Result[] {
  return items.filter((item) => item.kind !== 'end');
}

export function wasSent(item: Item): item is SentDelivery {
  return item.kind === 'sent';
}
