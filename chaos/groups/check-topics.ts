import { requiredIn } from '../additions/required.ts';
import type { History } from '../history.ts';
import { type Violation, violation } from '../violation.ts';
import type { EntryRow, GroupsHistory } from './group-history.ts';
import type { GroupTerms } from './group-terms.ts';

/** From the read model to the logs of the topics. */
export function checkTopics(
  history: Pick<History, 'messages' | 'posted'>,
  groups: GroupsHistory,
  terms: GroupTerms,
): Violation[] {
  const { messages } = history;
  return [...density(groups), ...contents(history, groups, terms), ...keyOrder(messages, groups, terms)];
}

/** A partition has exactly the offsets from `earliest` up to `next`, also that of dead letters. */
function density({ tails, entries }: GroupsHistory): Violation[] {
  const byPartition = new Map<string, number[]>();
  for (const { topic, partition, offset } of entries) {
    const name = `${topic}/${partition}`;
    byPartition.set(name, [...(byPartition.get(name) ?? []), offset]);
  }
  return tails.flatMap(({ topic, partition, earliest, next }) => {
    const offsets = byPartition.get(`${topic}/${partition}`) ?? [];
    const odd = offsets.findIndex((offset, index) => offset !== earliest + index);
    const complete = odd < 0 && offsets.length === next - earliest;
    if (complete) return [];
    const what =
      odd < 0 ? `${offsets.length} entries` : `offset ${offsets[odd]} in place of ${earliest + odd}`;
    return [
      violation(
        'offsets of a partition are dense',
        `${topic}/${partition} has ${what} from ${earliest} up to ${next}`,
      ),
    ];
  });
}

const CONTENTS = 'a topic has every finished message of its types once, in key order';

/** A topic that was created in the middle of a run may miss messages that were posted before. */
function contents(
  history: Pick<History, 'messages' | 'posted'>,
  { entries }: GroupsHistory,
  terms: GroupTerms,
): Violation[] {
  const isRequired = requiredIn(history);
  const counts = new Map<string, number>();
  for (const { topic, message } of entries) {
    const name = `${topic} ${message}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return history.messages.flatMap((message) => {
    const { position, id, type, status } = message;
    return terms.topics.flatMap(({ name, types, sinceMs }) => {
      const wanted = status === 'finished' && types.includes(type) ? 1 : 0;
      const actual = counts.get(`${name} ${position}`) ?? 0;
      if (actual === wanted || (actual === 0 && !isRequired(message, sinceMs))) return [];
      return [violation(CONTENTS, `${id} is ${status} and is ${actual} times in ${name}`)];
    });
  });
}

function keyOrder(messages: History['messages'], { entries }: GroupsHistory, terms: GroupTerms): Violation[] {
  const keys = new Map(messages.map(({ position, key }) => [position, key]));
  const last = new Map<string, EntryRow>();
  return entries.flatMap((entry) => {
    const { topic, partition, offset, message } = entry;
    const key = keys.get(message);
    if (key === undefined || !terms.topics.some(({ name }) => name === topic)) return [];
    const name = `${topic} ${key}`;
    const before = last.get(name);
    last.set(name, entry);
    if (!before || (before.partition === partition && before.message < message)) return [];
    const detail = `${topic}/${partition}/${offset} has message ${message} of ${key} after ${before.message} in partition ${before.partition}`;
    return [violation(CONTENTS, detail)];
  });
}
