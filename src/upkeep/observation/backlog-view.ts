import type { BacklogView, GroupBacklog, QueueView } from './backlog.openapi.ts';
import type { Observed } from './observation-store.ts';

/** The backlog as the API returns it: of the inbox, of each listener, including deleted ones with pending deliveries, and of each group. */
export function backlogView(observedAt: Date, observed: readonly Observed[]): BacklogView {
  const pendingDeliveries = observed.filter(({ name, stage }) => name === 'backlog' && stage === 'outbox');
  const listeners = [...new Set(pendingDeliveries.map(({ listener }) => listener!))];
  const inbox = observed.filter(({ stage }) => stage === 'inbox');
  const groups = observed.filter(({ name }) => name === 'group_members').map(({ group }) => group!);
  return {
    observedAt,
    inbox: { ...queueView(inbox), scheduled: sumOf(inbox, 'backlog', ['scheduled']) },
    listeners: listeners.toSorted().map((name) => {
      const own = observed.filter(({ listener }) => listener === name);
      const isPulled = own.some((one) => one.name === 'pull_in_flight');
      const inFlight = isPulled ? { inFlight: sumOf(own, 'pull_in_flight') } : {};
      return { name, ...queueView(own), ...inFlight, circuitOpen: sumOf(own, 'circuit_open') > 0 };
    }),
    groups: groups.toSorted().map((name) => ({
      name,
      ...groupView(observed.filter(({ group }) => group === name)),
    })),
  };
}

function queueView(rows: readonly Observed[]): QueueView {
  const ages = rows.filter(({ name }) => name === 'backlog_oldest_age_seconds').map(({ value }) => value);
  return {
    ready: sumOf(rows, 'backlog', ['ready', 'limited', 'closed', 'deleted']),
    held: sumOf(rows, 'backlog', ['held']),
    oldestSeconds: Math.max(0, ...ages),
    deadLetters: sumOf(rows, 'dead_letters'),
  };
}

function groupView(rows: readonly Observed[]): GroupBacklog {
  return {
    lag: sumOf(rows, 'group_lag_messages'),
    lagSeconds: sumOf(rows, 'group_lag_seconds'),
    members: sumOf(rows, 'group_members'),
    unownedPartitions: sumOf(rows, 'group_partitions_unowned'),
    expired: sumOf(rows, 'group_messages_expired'),
    deadLetters: sumOf(rows, 'dead_letters'),
  };
}

function sumOf(rows: readonly Observed[], measure: string, kinds?: readonly string[]): number {
  return rows
    .filter(({ name, kind }) => name === measure && (kinds?.includes(kind!) ?? true))
    .reduce((sum, { value }) => sum + value, 0);
}
