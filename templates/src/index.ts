import type { ReadModel } from 'sluice/contract';
import { stock } from './stock.ts';

/** The read models of this service: one line each. */
export const readModels: readonly ReadModel[] = [stock];
