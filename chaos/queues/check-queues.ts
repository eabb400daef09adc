import type { History } from '../history.ts';
import type { Violation } from '../violation.ts';
import { LeaseCheck } from './check-leases.ts';
import { checkOrder, checkOutcomes, checkReceipts, checkSettled } from './check-workers.ts';
import { ledgerOf } from './lease-ledger.ts';
import { WorkerEvidence } from './worker-evidence.ts';

/** From the read model over the work queues to their workers. */
export function checkQueues(history: History): Violation[] {
  const { queues, terms, deliveries, injected, operations } = history;
  if (!queues || !terms.queues) return [];
  const { calls, changes } = queues;
  const evidence = new WorkerEvidence(calls, injected);
  const ledger = ledgerOf(changes);
  return [
    ...new LeaseCheck(deliveries, terms.queues, evidence, operations.keys).run(changes),
    ...checkOutcomes(calls, ledger, evidence),
    ...checkReceipts(history, ledger, evidence),
    ...checkSettled(deliveries, terms.queues, ledger, evidence),
    ...checkOrder(deliveries, terms.queues, calls, ledger, evidence),
  ];
}
