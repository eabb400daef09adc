import type { Tenure } from '../../lanes/tenure.ts';
import type { Prepared } from '../denormalizers/effects.ts';
import type { ClaimedMessage } from './claimed-message.ts';

/** Messages claimed together, from lanes held under one token. */
export interface Batch {
  readonly tenure: Tenure;
  readonly messages: readonly ClaimedMessage[];
  readonly prepared: Prepared;
  /** They are all there is in these lanes: if they go well, the lanes are released with the same transaction. */
  readonly last?: boolean;
  /** Told after each transaction: a batch that fails is gone through one by one, and that can take long. */
  readonly progressed?: () => void;
}
