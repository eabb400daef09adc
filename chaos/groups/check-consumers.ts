import type { History } from '../history.ts';
import { type Violation, violation } from '../violation.ts';
import {
  type ConsumerCall,
  type CursorChange,
  type GroupsHistory,
  partitionName,
  placeName,
  type ReceivedBatch,
} from './group-history.ts';

/** A poll that got no response may still run that long: its replica may be frozen, or wait for a lock. */
const LOST_POLL_MS = 20_000;

/** What the consumers saw. */
export function checkConsumers({ messages }: Pick<History, 'messages'>, groups: GroupsHistory): Violation[] {
  return [...batches(groups), ...contents(messages, groups), ...handOuts(groups), ...interleaving(groups)];
}

/**
 * The batches of a partition follow each other, and the first one follows the committed offset, as long as a member has the
 * partition. Behind a poll without a response there may be a gap: the member does not process what comes after it.
 */
function batches({ calls, changes }: GroupsHistory): Violation[] {
  const next = new Map<string, number>();
  for (const { owner, committed, ...change } of changes) {
    const name = `${owner} ${placeName(change)}`;
    if (owner !== null && !next.has(name)) next.set(name, committed + 1);
  }
  const lostAt = new Map<string, number>();
  return calls.flatMap(({ what, group, member, status, doneMs, batches: received }) => {
    if (what !== 'poll') return [];
    if (status !== 200) lostAt.set(member, doneMs);
    const lost = doneMs - (lostAt.get(member) ?? Number.NEGATIVE_INFINITY) < LOST_POLL_MS;
    return received.flatMap((batch) => {
      const name = `${member} ${placeName(batch)}`;
      const expected = next.get(name) ?? 0;
      const detail = `${group} ${placeName(batch)}: ${member} got ${batch.from} to ${batch.to}`;
      const gap = batch.from > expected && !lost;
      if (batch.from <= expected) next.set(name, batch.to + 1);
      return [
        ...(gap
          ? [violation('batches in offset order, without gaps', `${detail} after ${expected - 1}`)]
          : []),
        ...(isComplete(batch)
          ? []
          : [violation('batches in offset order, without gaps', `${detail} in part`)]),
      ];
    });
  });
}

function isComplete({ from, to, messages }: ReceivedBatch): boolean {
  return messages.length === to - from + 1 && messages.every(({ offset }, index) => offset === from + index);
}

/** A message comes with the offset that the log has it at. */
function contents(messages: History['messages'], { calls, entries }: GroupsHistory): Violation[] {
  const ids = new Map(messages.map(({ position, id }) => [position, id]));
  const idAt = new Map(
    entries.map(({ topic, partition, offset, message }) => [
      `${topic}/${partition}/${offset}`,
      ids.get(message),
    ]),
  );
  return calls.flatMap(({ group, batches: received }) =>
    received.flatMap(({ topic, partition, messages: got }) =>
      got
        .filter(({ offset, id }) => idAt.get(`${topic}/${partition}/${offset}`) !== id)
        .map(({ offset, id }) =>
          violation(
            'batches in offset order, without gaps',
            `${group} got ${id} as ${topic}/${partition}/${offset}`,
          ),
        ),
    ),
  );
}

/** Every batch was written down as handed out, as often as it came. */
function handOuts({ calls, changes }: GroupsHistory): Violation[] {
  const handed = new Map<string, number>();
  const count = (name: string, n: number) => handed.set(name, (handed.get(name) ?? 0) + n);
  const last = new Map<string, CursorChange>();
  for (const change of changes) {
    const before = last.get(partitionName(change));
    last.set(partitionName(change), change);
    if (change.op === 'UPDATE' && before && change.handed > before.handed)
      count(`${change.owner} ${placeName(change)} ${before.handed + 1} to ${change.handed}`, 1);
  }
  return calls.flatMap(({ group, member, batches: received }) =>
    received.flatMap((batch) => {
      const name = `${member} ${placeName(batch)} ${batch.from} to ${batch.to}`;
      count(name, -1);
      if (handed.get(name)! >= 0) return [];
      return [violation('every repeat to a group has a reason', `${group}: ${name} was not handed out`)];
    }),
  );
}

type TimedCommit = ConsumerCall['commits'][number] & Pick<ConsumerCall, 'sentMs' | 'doneMs'>;

/** After a commit with a fence was confirmed, no commit that is sent with a lower one is accepted. */
function interleaving({ calls }: GroupsHistory): Violation[] {
  const byPartition = new Map<string, TimedCommit[]>();
  for (const { group, sentMs, doneMs, commits } of calls)
    for (const commit of commits) {
      const name = partitionName({ group, ...commit });
      byPartition.set(name, [...(byPartition.get(name) ?? []), { ...commit, sentMs, doneMs }]);
    }
  return [...byPartition].flatMap(([name, commits]) => {
    const accepted = commits
      .filter(({ outcome }) => outcome === 'committed')
      .sort((a, b) => a.doneMs - b.doneMs);
    const bySent = [...commits].sort((a, b) => a.sentMs - b.sentMs);
    let highest = -1;
    return bySent.flatMap(({ sentMs, fence, offset, outcome }) => {
      while (accepted.length > 0 && accepted[0]!.doneMs < sentMs)
        highest = Math.max(highest, accepted.shift()!.fence);
      if (fence >= highest || outcome === undefined || outcome === 'fenced') return [];
      const detail = `${name}: ${offset} was ${outcome} with fence ${fence} after fence ${highest}`;
      return [violation('only the owner of a partition commits, with its fence', detail)];
    });
  });
}
