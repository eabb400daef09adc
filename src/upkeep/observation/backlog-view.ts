import type { Observed } from './observation-store.ts';

/** The backlog as the API returns it: of the inbox and of each listener, including deleted ones with pending deliveries. */
export function backlogView(observedAt: Date, observed: readonly Observed[]) {
  const pendingDeliveries = observed.filter(({ name, stage }) => name === 'backlog' && stage === 'outbox');
  const listeners = [...new Set(pendingDeliveries.map(({ listener }) => listener!))];
  const inbox = observed.filter(({ stage }) => stage === 'inbox');
  return {
    observedAt,
    inbox: { ...queueView(inbox), scheduled: sumOf(inbox, 'backlog', ['scheduled']) },
    listeners: listeners.toSorted().map((name) => {
      const own = observed.filter(({ listener }) => listener === name);
      return { name, ...queueView(own), circuitOpen: sumOf(own, 'circuit_open') > 0 };
    }),
  };
}

function queueView(rows: readonly Observed[]) {
  const ages = rows.filter(({ name }) => name === 'backlog_oldest_age_seconds').map(({ value }) => value);
  return {
    ready: sumOf(rows, 'backlog', ['ready', 'limited', 'closed', 'deleted']),
    held: sumOf(rows, 'backlog', ['held']),
    oldestSeconds: Math.max(0, ...ages),
    deadLetters: sumOf(rows, 'dead_letters'),
  };
}

function sumOf(rows: readonly Observed[], measure: string, kinds?: readonly string[]): number {
  return rows
    .filter(({ name, kind }) => name === measure && (kinds?.includes(kind!) ?? true))
    .reduce((sum, { value }) => sum + value, 0);
}
