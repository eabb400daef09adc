/** A member that is silent for longer is dead. */
export const SESSION_MS = 3_000;

/** Topics of a run. A message may be in both. */
export const TOPICS = [
  { name: 'everything', partitions: 4, types: ['plain', 'edit', 'slow', 'sent'] },
  { name: 'some', partitions: 2, types: ['edit', 'slow', 'sent'] },
] as const;

/** One group with several members that read both topics, and one with a single member. */
export const GROUPS = [
  { name: 'crew', topics: ['everything', 'some'], consumers: 3, attempts: 3, maxInFlight: 60 },
  { name: 'solo', topics: ['everything'], consumers: 1, attempts: 2, maxInFlight: 200 },
] as const;

/** The configuration that the checks of topics and groups rely on. */
export interface GroupTerms {
  readonly topics: readonly {
    readonly name: string;
    readonly types: readonly string[];
    /** When its creation was confirmed, if that was in the middle of the run. */
    readonly sinceMs?: number | undefined;
  }[];
  readonly groups: readonly {
    readonly name: string;
    readonly topics: readonly string[];
    readonly attempts: number;
    /** The same; it starts with the messages that come after that. */
    readonly sinceMs?: number | undefined;
  }[];
}

/** The body of the PUT that creates a group. */
export function groupDefinitionOf({
  topics,
  attempts,
  maxInFlight,
}: {
  readonly topics: readonly string[];
  readonly attempts: number;
  readonly maxInFlight: number;
}): object {
  return { topics, attempts, maxInFlight, session: `${SESSION_MS}ms` };
}
