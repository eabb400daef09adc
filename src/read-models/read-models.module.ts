import type { ReadModel } from '../contract/read-model.ts';
import { recruitment } from './recruitment/recruitment.module.ts';

/** The read models of this service: one line each. */
export const READ_MODELS: readonly ReadModel[] = [
  // Example. To remove it, delete its folder and its test.
  recruitment,
];
