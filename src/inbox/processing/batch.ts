import type { Lease } from '../../lanes/lease.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import type { Prepared } from '../denormalizers/denormalizer-runner.ts';

/** Messages claimed together, from lanes held under one token. */
export interface ClaimedBatch {
  readonly lease: Lease;
  readonly messages: readonly ClaimedMessage[];
  /** They are all there is in these lanes: if they are applied together, the same transaction releases the lanes. */
  readonly last?: boolean;
  /** Called after each transaction: a batch that fails is retried in parts, and that can take long. */
  readonly progressed?: () => void;
  /** Once this is aborted, messages that were being prepared are given back instead of applied. */
  readonly stopping?: AbortSignal;
}

/** The messages that are left to apply, with what `prepare` returned for them. */
export interface Batch extends ClaimedBatch {
  readonly prepared: Prepared;
}
