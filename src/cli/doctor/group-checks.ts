import type { Api } from '../api.ts';
import {
  type GroupDetails,
  groupDetails,
  listGroups,
  listTopics,
  messagesKept,
  type Topic,
} from '../groups.ts';
import { secondsText } from '../output.ts';
import { type Finding, ok, warning } from './finding.ts';

/** Further ones are not checked: each takes a request. */
const MAX_GROUPS = 200;
const FAR_BEHIND_SECONDS = 300;
const MAX_NAMED = 3;

/** Checks consumer groups and the topics they read. */
export async function checkGroups(api: Api): Promise<readonly Finding[]> {
  const [groups, topics] = await Promise.all([listGroups(api), listTopics(api)]);
  const details: GroupDetails[] = [];
  for (const { name } of groups.slice(0, MAX_GROUPS)) details.push(await groupDetails(api, name));
  const read = new Set(groups.flatMap((group) => group.topics));
  const left = groups.length - details.length;
  return [
    ...findingsOfGroups(details),
    ...(left > 0 ? [{ check: 'groups', verdict: 'skipped', found: `${left} more` } as const] : []),
    ...findingsOfTopics(topics, read),
  ];
}

/** Pure: what is wrong with groups, and the next step. */
export function findingsOfGroups(groups: readonly GroupDetails[]): readonly Finding[] {
  if (groups.length === 0) return [];
  const findings = groups.flatMap(findingsOfGroup);
  return findings.length ? findings : [ok('groups', `${groups.length}, none far behind`)];
}

function findingsOfGroup(group: GroupDetails): Finding[] {
  const check = `group ${group.name}`;
  const alive = group.members.filter((member) => member.alive);
  const silent = group.members.filter((member) => !member.alive);
  const behind = `${group.lag} messages, ${secondsText(group.lagSeconds)} behind`;
  const findings: Finding[] = [];
  if (silent.length > 0)
    findings.push(
      warning(
        check,
        `members died: ${named(silent.map(({ name, member }) => name ?? member))}`,
        'they were silent for longer than the session; what they had is handed out again at the next poll',
      ),
    );
  if (alive.length === 0 && group.lag > 0)
    findings.push(
      warning(check, `no members, ${behind}`, 'start its consumers; if nobody needs the group, delete it'),
    );
  const expired = group.partitions.reduce((sum, one) => sum + one.expired, 0);
  if (expired > 0)
    findings.push(
      warning(
        check,
        `${expired} messages were removed by retention before it read them`,
        'give the topic a longer retention, and the group enough consumers',
      ),
    );
  if (alive.length > 0) findings.push(...findingsWithMembers(group, check, alive.length, behind));
  return findings;
}

function findingsWithMembers(
  { name, partitions, lagSeconds }: GroupDetails,
  check: string,
  members: number,
  behind: string,
): Finding[] {
  const findings: Finding[] = [];
  const places = (state: string) =>
    partitions.filter((one) => one.state === state).map(({ topic, partition }) => `${topic}/${partition}`);
  const [free, suspect] = [places('free'), places('suspect')];
  if (free.length > 0)
    findings.push(
      warning(
        check,
        `partitions without an owner: ${named(free)}`,
        `the next poll assigns them; if they stay, its members do not poll: sluice groups ${name}`,
      ),
    );
  if (suspect.length > 0)
    findings.push(
      warning(
        check,
        `partitions whose messages may kill consumers: ${named(suspect)}`,
        `"sluice groups ${name}" shows the offsets; a message that keeps killing consumers becomes a dead letter`,
      ),
    );
  if (lagSeconds > FAR_BEHIND_SECONDS)
    findings.push(
      warning(
        check,
        `${behind}, with ${members} of at most ${partitions.length} members`,
        members < partitions.length
          ? 'start more consumers, or make them faster'
          : 'more consumers than partitions do not help: make them faster',
      ),
    );
  return findings;
}

/** Pure: topics that no group reads. */
export function findingsOfTopics(topics: readonly Topic[], read: ReadonlySet<string>): readonly Finding[] {
  return topics
    .filter((topic) => topic.kind === 'topic' && !read.has(topic.name) && messagesKept(topic) > 0)
    .map((topic) =>
      warning(
        `topic ${topic.name}`,
        `no group reads it; ${messagesKept(topic)} messages are kept for ${topic.retention} each`,
        'create a group that reads it, give it a shorter retention, or delete it',
      ),
    );
}

function named(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return names
    .slice(0, MAX_NAMED)
    .join(', ')
    .concat(more > 0 ? ` and ${more} more` : '');
}
