import type { Listener } from '../../listeners/listener.ts';
import type { Answer } from '../../webhooks/answer.ts';
import type { ClaimedDelivery } from '../claim/claimed-delivery.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import type { Outcome } from '../send/outcome.ts';

/** A delivery was sent, with this answer and outcome. */
export interface Tried {
  readonly kind: 'tried';
  readonly held: HeldLane;
  readonly delivery: ClaimedDelivery;
  readonly listener: Listener;
  readonly answer: Answer;
  readonly outcome: Outcome;
  /** When the answer arrived, by this replica's clock. */
  readonly atMs: number;
}

/** The result of a claimed delivery, to be written. */
export type Result =
  | Tried
  /** Cannot be sent, now or later. */
  | {
      readonly kind: 'unsendable';
      readonly held: HeldLane;
      readonly delivery: ClaimedDelivery;
      readonly listener: Listener;
      readonly reason: string;
    }
  /** Not sent: an earlier delivery of its key waits. */
  | { readonly kind: 'behind'; readonly held: HeldLane; readonly delivery: ClaimedDelivery }
  /** Not sent: the run had to stop. */
  | { readonly kind: 'untouched'; readonly held: HeldLane; readonly delivery: ClaimedDelivery };

/** The end of a run: all earlier results of its lane are written, and the lane is released if `release` is set. */
export interface RunEnd {
  readonly kind: 'end';
  readonly held: HeldLane;
  readonly release: boolean;
  resolve(): void;
}

/** What is written in groups. */
export type Item = Result | RunEnd;

export function resultsOf(items: readonly Item[]): Result[] {
  return items.filter((item) => item.kind !== 'end');
}

export function wasSent(item: Item): item is Tried {
  return item.kind === 'tried';
}
