import type { Lease } from '../../lanes/lease.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import type { Prepared } from '../denormalizers/denormalizer-runner.ts';

/** Messages claimed together, from lanes held under one token. */
export interface Batch {
  readonly lease: Lease;
  readonly messages: readonly ClaimedMessage[];
  readonly prepared: Prepared;
  /** They are all there is in these lanes: if they go well, the lanes are released with the same transaction. */
  readonly last?: boolean;
  /** Told after each transaction: a batch that fails is gone through one by one, and that can take long. */
  readonly progressed?: () => void;
}
