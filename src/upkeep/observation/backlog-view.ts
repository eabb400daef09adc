import { groupBy } from '../../database/group-by.ts';
import type { BacklogView, GroupBacklog, ListenerState, QueueView } from './backlog.openapi.ts';
import type { Observed } from './observation-store.ts';

/** The backlog as the API returns it: of the inbox, of each listener, including deleted ones with pending deliveries, and of each group. */
export function backlogView(observedAt: Date, observed: readonly Observed[]): BacklogView {
  const inbox = observed.filter(({ stage }) => stage === 'inbox');
  return {
    observedAt,
    countedUpTo: sumOf(observed, 'counted_up_to'),
    inbox: { ...queueView(inbox), scheduled: sumOf(inbox, 'backlog', ['scheduled']) },
    listeners: named(observed, ({ listener }) => listener, 'backlog').map(([name, own]) => {
      const isPulled = own.some((one) => one.name === 'pull_in_flight');
      const inFlight = isPulled ? { inFlight: sumOf(own, 'pull_in_flight') } : {};
      const circuitOpen = sumOf(own, 'circuit_open') > 0;
      return { name, state: stateOf(own), ...queueView(own), ...inFlight, circuitOpen };
    }),
    groups: rowsOfGroups(observed).map(([name, own]) => ({ name, ...groupView(own) })),
  };
}

/** Of a deleted listener only its deliveries are left. */
function stateOf(rows: readonly Observed[]): ListenerState {
  return (rows.find(({ name }) => name === 'listener_paused')?.kind ?? 'deleted') as ListenerState;
}

/** Every group with its rows. */
export function rowsOfGroups(observed: readonly Observed[]): [name: string, rows: Observed[]][] {
  return named(observed, ({ group }) => group, 'group_members');
}

/**
 * Those that have the measure, each with all of its rows, by name. The rows are gone through once, not once for each name: it
 * happens every second, and there may be a thousand listeners.
 */
function named(
  observed: readonly Observed[],
  nameOf: (row: Observed) => string | null,
  measure: string,
): [name: string, rows: Observed[]][] {
  return groupBy(observed, nameOf)
    .map((rows): [string | null, Observed[]] => [nameOf(rows[0]!), rows])
    .filter((pair): pair is [string, Observed[]] => pair[0] !== null)
    .filter(([, rows]) => rows.some(({ name }) => name === measure))
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
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
