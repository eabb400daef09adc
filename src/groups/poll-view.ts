import { formatDuration } from '../config/duration.ts';
import { inFlight } from './blocked.ts';
import type { AssignmentView, OutcomeView } from './groups.openapi.ts';
import type { OffsetOf, Outcome, PollReply, StateRow } from './poll-store.ts';

type ItemOutcome = { readonly item: OffsetOf } & Outcome;

/** The response of a poll as JSON text; the messages are passed on as PostgreSQL wrote them. */
export function pollText({ state, batches }: PollReply, outcomes: readonly ItemOutcome[]): string {
  const head = { ...assignmentView(state!), committed: outcomes.map(outcomeView) };
  const texts = batches.map(({ topic, partition, fence, first, last, count, expected, messages }) => {
    const skipped = first > expected ? { skipped: { from: expected, to: first - 1 } } : {};
    const rest = JSON.stringify({ topic, partition, fence, from: first, to: last, count, ...skipped });
    return `${rest.slice(0, -1)},"messages":[${messages ?? ''}]}`;
  });
  return `${JSON.stringify(head).slice(0, -1)},"batches":[${texts.join()}]}`;
}

/** What a member has: partitions to read, and those that it has to finish first because they go to another member. */
export function assignmentView({ cursors, max_in_flight }: StateRow): AssignmentView {
  const views = cursors.map(({ topic, partition, fence, committed, handed, draining, bound }) => ({
    drains: draining || bound !== null,
    view: { topic, partition, fence, committed, next: handed + 1 },
  }));
  const assigned = views.filter(({ drains }) => !drains).map(({ view }) => view);
  const why =
    assigned.length === 0
      ? NONE_ASSIGNED
      : inFlight(cursors) >= max_in_flight
        ? limitReached(max_in_flight)
        : undefined;
  return {
    assigned,
    draining: views.filter(({ drains }) => drains).map(({ view }) => view),
    ...(why ? { why } : {}),
  };
}

const NONE_ASSIGNED =
  'No partition is assigned: the group has more members than partitions, they are still draining at other members, or its topics are gone.';

function limitReached(max: number): string {
  return `${max} messages are in flight, the maxInFlight of the group; commit some to get more.`;
}

export function outcomeView({ item, outcome, committed }: ItemOutcome): OutcomeView {
  const { topic, partition } = item;
  return { topic, partition, outcome, ...(committed === null ? {} : { committed }) };
}

/** A third of the session: two heartbeats may get lost. */
export function heartbeatOf({ session_ms }: Pick<StateRow, 'session_ms'>): string {
  return formatDuration(Math.max(100, Math.floor(session_ms / 3)));
}
