import { TYPES } from '../bed-settings.ts';

/** How long a worker has a message; the shortest is 1 s. */
export const PULL_LEASE_MS = 2_000;
/** Of a retry that does not say when. */
export const PULL_RETRY_MS = 200;

/** A listener with the mode `pull`, as a run creates it. */
export interface QueueTerms {
  readonly name: string;
  readonly types: readonly string[];
  readonly ordered: boolean;
  readonly attempts: number;
  readonly maxInFlight: number;
  /** When its creation was confirmed, if that was in the middle of the run. */
  readonly sinceMs?: number | undefined;
}

/** With order and without. */
export const QUEUES: readonly QueueTerms[] = [
  { name: 'jobs', types: TYPES, ordered: true, attempts: 6, maxInFlight: 60 },
  { name: 'tasks', types: TYPES, ordered: false, attempts: 6, maxInFlight: 40 },
];

/** Of each queue. */
export const WORKERS = 3;

/** The body of the PUT that creates a queue. */
export function definitionOf({ types, ordered, attempts, maxInFlight }: QueueTerms): object {
  return {
    mode: 'pull',
    types,
    ordered,
    attempts,
    maxInFlight,
    lanes: 8,
    lease: `${PULL_LEASE_MS}ms`,
    retrySchedule: [`${PULL_RETRY_MS}ms`],
  };
}
