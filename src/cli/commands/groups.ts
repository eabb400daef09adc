import { EXIT, usageError } from '../cli-error.ts';
import type { Command } from '../command.ts';
import {
  type GroupDetails,
  type GroupMember,
  type GroupSummary,
  groupDetails,
  listGroups,
} from '../groups.ts';
import { EVERY, everyOf, show } from '../live.ts';
import { type Column, secondsText, table } from '../output.ts';

export const groups: Command = {
  name: 'groups',
  summary: 'List consumer groups and how far each is behind; or the members and partitions of one.',
  usages: ['[--follow]', '<group> [--follow]'],
  options: {
    follow: { type: 'boolean', about: 'Refresh until Ctrl-C.' },
    every: EVERY,
  },
  async run(args, context) {
    const [name, ...more] = args.positionals;
    if (more.length > 0) throw usageError('give one group, or none for all');
    const everyMs = args.flag('follow') ? everyOf(args) : undefined;
    const { api } = context;
    const one = { fetch: () => groupDetails(api, name!), render: renderOne };
    const all = { fetch: async () => ({ items: await listGroups(api) }), render: renderAll };
    await (name === undefined ? show(all, everyMs, context) : show(one, everyMs, context));
    return EXIT.ok;
  },
};

const GROUP_COLUMNS: readonly Column<GroupSummary>[] = [
  { title: 'GROUP', of: ({ name }) => name },
  { title: 'TOPICS', of: ({ topics }) => topics.join(', ') },
  { title: 'MEMBERS', of: ({ members }) => members, right: true },
  { title: 'LAG', of: ({ lag }) => lag, right: true },
  { title: 'BEHIND', of: ({ lagSeconds }) => secondsText(lagSeconds), right: true },
];

function renderAll({ items }: { items: readonly GroupSummary[] }, _: unknown, cellLimit: number): string {
  return items.length === 0 ? 'no groups\n' : table(items, GROUP_COLUMNS, cellLimit);
}

function renderOne(group: GroupDetails, _: unknown, cellLimit: number): string {
  const { name, topics, lag, lagSeconds, members, partitions, session } = group;
  const names = new Map(members.map((member) => [member.member, nameOf(member)]));
  return [
    `${name}  reads ${topics.join(', ')}; lag ${lag}, ${secondsText(lagSeconds)} behind; session ${session}\n`,
    members.length === 0
      ? 'no members\n'
      : table(
          members,
          [
            { title: 'MEMBER', of: nameOf },
            { title: 'STATE', of: ({ alive }) => (alive ? 'alive' : 'dead') },
            { title: 'SEEN', of: ({ seenAt }) => seenAt },
            { title: 'PARTITIONS', of: (member) => member.partitions, right: true },
            { title: 'IN FLIGHT', of: ({ inFlight }) => inFlight, right: true },
          ],
          cellLimit,
        ),
    table(
      partitions,
      [
        { title: 'PARTITION', of: ({ topic, partition }) => `${topic}/${partition}` },
        { title: 'STATE', of: ({ state }) => state },
        { title: 'MEMBER', of: ({ member }) => names.get(member ?? '') ?? member },
        { title: 'COMMITTED', of: ({ committed }) => committed, right: true },
        { title: 'NEXT', of: ({ next }) => next, right: true },
        { title: 'LAG', of: (one) => one.lag, right: true },
        { title: 'BEHIND', of: (one) => secondsText(one.lagSeconds), right: true },
        { title: 'WHY', of: ({ why }) => why, whole: true },
      ],
      cellLimit,
    ),
  ].join('\n');
}

/** Two members may have the same name. */
function nameOf({ name, member }: GroupMember): string {
  return name === null ? member : `${name} (${member.slice(0, 8)})`;
}
