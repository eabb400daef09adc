import { checkDeliveries } from './check-deliveries.ts';
import { checkLogs } from './check-logs.ts';
import { checkMessages } from './check-messages.ts';
import { checkGroups } from './groups/check-groups.ts';
import type { History } from './history.ts';
import { checkOperations } from './operator/check-operations.ts';
import { checkQueues } from './queues/check-queues.ts';
import { checkRebuilds } from './rebuilds/check-rebuilds.ts';
import { type Violation, violation } from './violation.ts';

/** The violations in the history of a run that became idle. Pure. */
export function check(history: History): Violation[] {
  const checks = [
    checkMessages,
    checkDeliveries,
    checkQueues,
    checkGroups,
    checkOperations,
    checkRebuilds,
    checkIdle,
    checkLogs,
  ];
  return checks.flatMap((one) => one(history));
}

/** No lane is leased; everything that still waits is behind a dead letter; no hold is left over. */
function checkIdle({ leased, holds, messages, deliveries }: History): Violation[] {
  const rows = [
    ...messages.map(({ id, key, lane, status }) => ({ queue: 'inbox', id, key, lane, status })),
    ...deliveries.map(({ id, key, lane, status }) => ({ queue: 'outbox', id, key, lane, status })),
  ];
  const indefinite = new Set(holds.filter((hold) => hold.indefinite).map(nameOf));
  const dead = new Set(rows.filter(({ status }) => status === 'dead').map(nameOf));
  const stuck = rows.filter(
    (row) => !SETTLED.includes(row.status) && !(row.status === 'held' && indefinite.has(nameOf(row))),
  );
  const leftOver = holds.filter((hold) => !(hold.indefinite && dead.has(nameOf(hold))));
  return [
    ...leased.map(({ queue, lane }) =>
      violation('no lease left over', `lane ${lane} of the ${queue} is leased`),
    ),
    ...stuck.map(({ queue, id, status }) =>
      violation('nothing stuck', `${id} is ${status} in the ${queue} and will not be processed`),
    ),
    ...leftOver.map(({ queue, key, reason }) =>
      violation('nothing stuck', `a hold (${reason}) on ${key} is left over in the ${queue}`),
    ),
  ];
}

const SETTLED = ['finished', 'dead', 'expired', 'superseded', 'discarded'];

function nameOf({ queue, lane, key }: { queue: string; lane: number; key: string }): string {
  return `${queue} ${lane} ${key}`;
}
