import { requiredIn } from '../additions/required.ts';
import type { History } from '../history.ts';
import { type Violation, violation } from '../violation.ts';
import { checkConsumers } from './check-consumers.ts';
import { checkCursors } from './check-cursors.ts';
import { checkRejections } from './check-rejections.ts';
import { checkTopics } from './check-topics.ts';
import { type CursorChange, type GroupsHistory, partitionName, startsOf } from './group-history.ts';
import type { GroupTerms } from './group-terms.ts';

/** From the read model over the topics to the consumers of groups. */
export function checkGroups(history: Pick<History, 'messages' | 'posted' | 'groups' | 'terms'>): Violation[] {
  const { groups, terms } = history;
  if (!groups || !terms.groups) return [];
  return [
    ...checkTopics(history, groups, terms.groups),
    ...checkCursors(groups),
    ...checkConsumers(history, groups),
    ...checkRejections(history, groups, terms.groups),
    ...startedInTime(history, groups, terms.groups),
    ...committedToTheEnd(groups),
  ];
}

/** A group that is created in the middle of a run starts ahead of every message that is posted after that. */
function startedInTime(
  history: Pick<History, 'messages' | 'posted'>,
  groups: GroupsHistory,
  terms: GroupTerms,
): Violation[] {
  const isRequired = requiredIn(history);
  const messages = new Map(history.messages.map((message) => [message.position, message]));
  const starts = startsOf(groups);
  return terms.groups.flatMap(({ name, topics, sinceMs }) =>
    groups.entries.flatMap(({ topic, partition, offset, message }) => {
      const row = messages.get(message);
      if (sinceMs === undefined || !topics.includes(topic) || !row || !isRequired(row, sinceMs)) return [];
      const start = starts.get(partitionName({ group: name, topic, partition })) ?? Number.POSITIVE_INFINITY;
      if (offset > start) return [];
      const detail = `${name} starts ${topic}/${partition} after ${start}, and ${row.id} is at ${offset}`;
      return [violation('every group gets every message, and commits or rejects it', detail)];
    }),
  );
}

/** When idle, every group has committed every partition to its end. */
function committedToTheEnd({ changes, tails }: GroupsHistory): Violation[] {
  const cursors = new Map<string, CursorChange>();
  for (const change of changes) cursors.set(partitionName(change), change);
  const ends = new Map(tails.map(({ topic, partition, next }) => [`${topic}/${partition}`, next - 1]));
  return [...cursors.values()].flatMap(({ op, group, topic, partition, committed, handed }) => {
    const end = ends.get(`${topic}/${partition}`)!;
    if (op !== 'DELETE' && committed >= end) return [];
    const detail = `${group} has committed ${topic}/${partition} up to ${committed} of ${end}, handed out up to ${handed}`;
    return [violation('every group gets every message, and commits or rejects it', detail)];
  });
}
