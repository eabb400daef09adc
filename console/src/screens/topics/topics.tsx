import type { GroupSummary, Topic } from '../../api-types.ts';
import { count, duration, perSecond } from '../../format.ts';
import { snapshot } from '../../live.ts';
import { usePages } from '../../load.ts';
import { Heading, Section } from '../../parts/heading.tsx';
import { GroupLink, Text } from '../../parts/links.tsx';
import { Bar } from '../../parts/sparkline.tsx';
import { Empty, ShowPages } from '../../parts/states.tsx';
import { Alarming } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { to } from '../../router.ts';

const TOPICS: Column<Topic>[] = [
  {
    head: 'Topic',
    cell: ({ name }) => (
      <a href={to('topic', { name })}>
        <bdi>{name}</bdi>
      </a>
    ),
    class: 'grow',
  },
  { head: 'Types', cell: (topic) => <Text of={typesOf(topic)} class="clip" /> },
  { head: 'Partitions', cell: ({ partitions }) => partitions.length, isNumber: true },
  { head: 'Messages kept', cell: (topic) => count(keptOf(topic)), isNumber: true },
  { head: 'Kept for', cell: ({ retention }) => retention, isNumber: true },
];

/** Topics of a group have no types: what the group rejected, or was revived for it. */
function typesOf({ name, types }: Topic): string {
  if (types.length > 0) return types.join(', ');
  return name.endsWith('.dead') ? 'what its group rejected' : 'what was revived for its group';
}

function keptOf({ partitions }: Topic): number {
  return partitions.reduce((sum, { earliest, next }) => sum + Math.max(0, next - earliest), 0);
}

export function Topics() {
  const topics = usePages<Topic>('v1/topics', {}, 10);
  const groups = usePages<GroupSummary>('v1/groups', {}, 5);
  return (
    <>
      <Heading
        title="Topics and groups"
        lead="Topics keep messages in order; groups read them at their own pace."
      />
      <Section title="Consumer groups">
        <ShowPages
          of={groups}
          what="groups"
          empty={
            <Empty title="No consumer groups yet">
              A group is created with PUT /v1/groups/{'{group}'} and read by its members.
            </Empty>
          }
        >
          {(items) => <GroupTable groups={items} />}
        </ShowPages>
      </Section>
      <Section title="Topics">
        <ShowPages
          of={topics}
          what="topics"
          empty={
            <Empty title="No topics yet">
              A topic is created with PUT /v1/topics/{'{topic}'}; it gets the messages of its types from then
              on.
            </Empty>
          }
        >
          {(items) => <Table label="Topics" columns={TOPICS} rows={items} rowKey={({ name }) => name} />}
        </ShowPages>
      </Section>
    </>
  );
}

function GroupTable({ groups }: { groups: readonly GroupSummary[] }) {
  const rates = new Map(snapshot.value?.rates.groups.map((one) => [one.name, one.committedPerSecond]));
  const live = new Map(snapshot.value?.backlog.groups.map((one) => [one.name, one]));
  const lagOf = (group: GroupSummary) => live.get(group.name)?.lag ?? group.lag;
  const max = Math.max(1, ...groups.map(lagOf));
  const columns: Column<GroupSummary>[] = [
    { head: 'Group', cell: ({ name }) => <GroupLink name={name} />, class: 'grow' },
    { head: 'Reads', cell: ({ topics }) => <Text of={topics.join(', ')} class="clip" /> },
    {
      head: 'Members',
      cell: ({ members }) => (members === 0 ? <Alarming value={1}>none</Alarming> : members),
      isNumber: true,
    },
    {
      head: 'Committed',
      cell: ({ name }) => <span class="live-number">{perSecond(rates.get(name) ?? 0)}</span>,
      isNumber: true,
    },
    {
      head: 'Lag, messages',
      cell: (group) => (
        <span class="lag">
          <Bar value={lagOf(group)} max={max} />
          <span class="live-number">{count(lagOf(group))}</span>
        </span>
      ),
      isNumber: true,
    },
    {
      head: 'Oldest',
      cell: (group) => {
        const seconds = live.get(group.name)?.lagSeconds ?? group.lagSeconds;
        return <span class="live-number">{lagOf(group) ? duration(seconds) : '–'}</span>;
      },
      isNumber: true,
    },
  ];
  return <Table label="Consumer groups" columns={columns} rows={groups} rowKey={({ name }) => name} />;
}
