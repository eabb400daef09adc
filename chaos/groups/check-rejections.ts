import type { History } from '../history.ts';
import { type Violation, violation } from '../violation.ts';
import { isRejected } from './consumer-rules.ts';
import {
  type EntryRow,
  type GroupsHistory,
  partitionName,
  type RejectionRow,
  startsOf,
} from './group-history.ts';
import type { GroupTerms } from './group-terms.ts';

const CHECK = 'each rejected message is once in the dead letters of its group';

/** What consumers reject, and what they die with too often, is in the topic of the group's dead letters; nothing else is. */
export function checkRejections(
  { messages }: Pick<History, 'messages'>,
  groups: GroupsHistory,
  terms: GroupTerms,
): Violation[] {
  const ids = new Map(messages.map(({ position, id }) => [position, id]));
  const rejected = new Map(groups.rejections.map((row) => [`${row.group} ${placeOf(row)}`, row]));
  const starts = startsOf(groups);
  const missing = terms.groups.flatMap(({ name, topics }) =>
    groups.entries.flatMap((entry) => {
      const start = starts.get(partitionName({ group: name, ...entry })) ?? -1;
      if (!topics.includes(entry.topic) || entry.offset <= start) return [];
      const id = ids.get(entry.message) ?? '';
      const row = rejected.get(`${name} ${placeOf(entry)}`);
      if (isRejected(id) && !row)
        return [violation(CHECK, `${name} did not reject ${placeOf(entry)} (${id})`)];
      const justified = !row || isRejected(id) || row.reason.includes('died');
      return justified ? [] : [violation(CHECK, `${name} rejected ${placeOf(entry)} (${id}): ${row.reason}`)];
    }),
  );
  return [...missing, ...deadEntries(groups, terms), ...revivedEntries(groups, terms)];
}

/** Each rejection has one entry of its own, with the message of the place that it was rejected at. */
function deadEntries({ entries, rejections }: GroupsHistory, terms: GroupTerms): Violation[] {
  const messageAt = new Map(entries.map((entry) => [placeOf(entry), entry.message]));
  return terms.groups.flatMap(({ name }) => {
    const own = rejections.filter(({ group }) => group === name);
    const byOffset = new Map(own.map((row) => [row.deadOffset, row]));
    const dead = entries.filter(({ topic }) => topic === `${name}.dead`);
    return [
      ...(dead.length === own.length
        ? []
        : [violation(CHECK, `${name}.dead has ${dead.length} entries for ${own.length} rejections`)]),
      ...dead
        .filter(({ offset, message }) => messageAt.get(originOf(byOffset.get(offset))) !== message)
        .map(({ offset }) => violation(CHECK, `${name}.dead/${offset} is not what was rejected`)),
    ];
  });
}

/** The group gets each dead letter that is revived once more, and nothing else in that way. */
function revivedEntries({ entries, rejections }: GroupsHistory, terms: GroupTerms): Violation[] {
  const messageAt = new Map(entries.map((entry) => [placeOf(entry), entry.message]));
  return terms.groups.flatMap(({ name }) => {
    const expected = rejections
      .filter(({ group, revivedOffset }) => group === name && revivedOffset !== null)
      .map((row) => `${name}.revived/${row.revivedOffset} is message ${messageAt.get(placeOf(row))}`);
    const actual = entries
      .filter(({ topic }) => topic === `${name}.revived`)
      .map(({ offset, message }) => `${name}.revived/${offset} is message ${message}`);
    const odd = [
      ...expected.filter((one) => !actual.includes(one)),
      ...actual.filter((one) => !expected.includes(one)),
    ];
    return odd.map((one) => violation('a dead letter starts over once for each revive', one));
  });
}

function originOf(row: RejectionRow | undefined): string {
  return row ? placeOf(row) : '';
}

function placeOf({ topic, partition, offset }: Pick<EntryRow, 'topic' | 'partition' | 'offset'>): string {
  return `${topic}/${partition}/${offset}`;
}
