import type { MemberCursor, Outcome, StateRow } from './poll-store.ts';
import type { Waiting } from './poll-waiters.ts';

type Blocking = Pick<StateRow, 'max_in_flight' | 'cursors'>;

/** What a poll of the member waits for: new messages, and a commit if only that lets it have more. */
export function waitingOf(state: StateRow, member: string, seen: Waiting['seen']): Waiting {
  const { number, cursors, session_ms: sessionMs } = state;
  const awaited = cursors
    .filter(({ draining }) => !draining)
    .map((cursor) => ({ topic: cursor.number, partition: cursor.partition, next: cursor.next }));
  const committed = cursors.reduce((sum, cursor) => sum + cursor.committed, 0);
  return {
    group: number,
    member,
    awaited,
    sessionMs,
    seen,
    committed: isBlocked(state) ? committed : undefined,
  };
}

/** Pure: whether a commit may have freed what a poll of the member waits for. `state`: after the commit. */
export function unblocks(
  { cursors, max_in_flight }: Blocking,
  outcomes: readonly Pick<Outcome, 'moved' | 'alone' | 'messages'>[],
): boolean {
  const messages = outcomes.reduce((sum, outcome) => sum + outcome.messages, 0);
  const wasFull = inFlight(cursors) + messages >= max_in_flight;
  return outcomes.some(({ moved, alone }) => moved && (wasFull || alone));
}

function isBlocked({ cursors, max_in_flight }: Blocking): boolean {
  return (
    inFlight(cursors) >= max_in_flight ||
    cursors.some(({ alone, committed, handed }) => alone && handed > committed)
  );
}

export function inFlight(cursors: readonly Pick<MemberCursor, 'committed' | 'handed'>[]): number {
  return cursors.reduce((sum, { committed, handed }) => sum + handed - committed, 0);
}
