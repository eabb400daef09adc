import type { Listener } from '../../listeners/listener.ts';
import type { Answer } from '../../webhooks/answer.ts';
import type { ClaimedDelivery } from '../claim/claimed-delivery.ts';
import type { HeldLane } from '../claim/held-lane.ts';
import type { Outcome } from '../send/outcome.ts';

/** A delivery was sent, and this came of it. */
export interface Tried {
  readonly kind: 'tried';
  readonly held: HeldLane;
  readonly delivery: ClaimedDelivery;
  readonly listener: Listener;
  readonly answer: Answer;
  readonly outcome: Outcome;
  /** When the answer was there, by our own clock. */
  readonly atMs: number;
}

/** What became of a claimed delivery, to be written down. */
export type Result =
  | Tried
  /** Cannot be sent, now or ever. */
  | {
      readonly kind: 'unsendable';
      readonly held: HeldLane;
      readonly delivery: ClaimedDelivery;
      readonly listener: Listener;
      readonly reason: string;
    }
  /** Not sent: an earlier one of its key waits. */
  | { readonly kind: 'behind'; readonly held: HeldLane; readonly delivery: ClaimedDelivery }
  /** Not sent: the run had to stop. */
  | { readonly kind: 'untouched'; readonly held: HeldLane; readonly delivery: ClaimedDelivery };
