/*
 * Everything a read model may import from the service, and nothing else: the entry `sluice/contract` of the package, and
 * what docs/versions.md calls public. Code of the engine imports the files themselves.
 */

import 'reflect-metadata';

export { Allow } from '../http/access.ts';
export { type Page, type PageRequest, pageOf, pageRequest } from '../http/pages.ts';
export { Problem, retryAfter } from '../http/problems.ts';
export { queryOf } from '../http/query.ts';
export {
  Denormalizer,
  type DenormalizerMethods,
  type DenormalizerOptions,
  type PayloadClass,
} from './denormalizer.ts';
export { Etag } from './etag.ts';
export { Fresh } from './fresh.ts';
export type { Message } from './message.ts';
export { Defer, Refuse } from './outcomes.ts';
export { choiceOf, flagOf } from './parameters.ts';
export { ApiPending, Pending } from './pending.ts';
export type { ReadModel } from './read-model.ts';
export type { MessageToSend, ReadModelTransaction } from './read-model-transaction.ts';
export {
  ApiPage,
  ApiSortedPage,
  rowsWithinBytes,
  type SortableType,
  type SortedRequest,
  Sorting,
} from './sorting.ts';
