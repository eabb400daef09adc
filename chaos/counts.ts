import type { History } from './history.ts';

const ENDS = ['finished', 'dead', 'held', 'expired', 'superseded'];

/** What the checks of a run had to look at. */
export function countsOf(history: History): Record<string, number> {
  const { posted, messages, deliveries, arrivals, operations, groups, queues, terms } = history;
  const counted = (rows: readonly { status: string }[], status: string) =>
    rows.filter((row) => row.status === status).length;
  const pulled = new Set(terms.queues?.map(({ name }) => name));
  const jobs = deliveries.filter(({ listener }) => pulled.has(listener));
  const webhooks = deliveries.filter(({ listener }) => !pulled.has(listener));
  const isLate = ({ sinceMs }: { readonly sinceMs?: number | undefined }) => sinceMs !== undefined;
  const late = [...(terms.queues ?? []), ...(terms.groups?.topics ?? []), ...(terms.groups?.groups ?? [])];
  return {
    accepted: posted.filter(({ outcome }) => outcome === 'accepted').length,
    refused: posted.filter(({ outcome }) => outcome === 'refused').length,
    messages: messages.length,
    archived: messages.filter(({ archived }) => archived).length,
    ...Object.fromEntries(ENDS.map((status) => [status, counted(messages, status)])),
    deliveries: webhooks.length,
    deadDeliveries: counted(webhooks, 'dead'),
    requests: arrivals.length,
    repeatedRequests: arrivals.length - new Set(arrivals.map(({ delivery }) => delivery)).size,
    failedRequests: arrivals.filter(({ reply }) => reply !== 'ok').length,
    queueDeliveries: jobs.length,
    deadQueueDeliveries: counted(jobs, 'dead'),
    leases: queues?.changes.filter(({ op }) => op === 'INSERT').length ?? 0,
    createdDuringTheRun: late.filter(isLate).length,
    rejections: groups?.rejections.length ?? 0,
    membersDied: groups?.ends.filter(({ silentMs, sessionMs }) => silentMs >= sessionMs).length ?? 0,
    replayedDeliveries: operations.replayed.length,
    discarded: counted([...messages, ...deliveries], 'discarded'),
  };
}
