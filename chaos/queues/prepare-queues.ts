import type { ObserverDatabase } from '../observer-database.ts';
import { INSTALL_LEASE_LOG } from './lease-log.ts';
import { definitionOf, QUEUES, type QueueTerms } from './queue-terms.ts';

/** Creates the queues of a run before its first message, and the log of their leases in the schema `chaos`. */
export async function prepareQueues(
  put: (path: string, definition: object) => Promise<void>,
  database: ObserverDatabase,
): Promise<readonly QueueTerms[]> {
  await database.query(INSTALL_LEASE_LOG);
  for (const queue of QUEUES) await put(`/v1/listeners/${queue.name}`, definitionOf(queue));
  return QUEUES;
}
