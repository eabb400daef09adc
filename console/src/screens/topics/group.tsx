import { path } from '../../api.ts';
import type { Group, GroupPartition } from '../../api-types.ts';
import { count, duration, plural } from '../../format.ts';
import { useGet } from '../../load.ts';
import { Act } from '../../parts/confirm.tsx';
import { Facts, Heading, Section } from '../../parts/heading.tsx';
import { Text } from '../../parts/links.tsx';
import { Bar } from '../../parts/sparkline.tsx';
import { Empty, Show } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { route, to } from '../../router.ts';
import { askSeek } from './seek.tsx';

type Member = Group['members'][number];

const MEMBERS: Column<Member>[] = [
  { head: 'Member', cell: ({ name, member }) => <Text of={name ?? member} />, class: 'grow' },
  { head: 'State', cell: ({ alive }) => <Status of={alive ? 'live' : 'gone'} /> },
  { head: 'Partitions', cell: ({ partitions }) => partitions, isNumber: true },
  { head: 'In flight', cell: ({ inFlight }) => count(inFlight), isNumber: true },
  { head: 'Seen', cell: ({ seenAt }) => <Ago at={seenAt} />, isNumber: true },
  { head: 'Joined', cell: ({ joinedAt }) => <Ago at={joinedAt} />, isNumber: true },
];

export function GroupScreen() {
  const { name = '' } = route.value.query;
  const group = useGet<Group>(path`v1/groups/${name}`, {}, 2);
  const { data } = group;
  return (
    <>
      <Heading
        title={name}
        lead={
          data &&
          `A consumer group: ${data.lag === 0 ? 'it has committed everything' : `${plural(data.lag, 'message')} behind, the oldest ${duration(data.lagSeconds)} old`}`
        }
      >
        {data && <Act label="Seek…" onClick={() => askSeek(data)} />}
      </Heading>
      <Show of={group} what="the group">
        {(shown) => (
          <>
            <Partitions of={shown} />
            <Section title="Members">
              {shown.members.length === 0 ? (
                <Empty title="No members">
                  A consumer joins with POST /v1/groups/{name}/members and polls.
                </Empty>
              ) : (
                <Table
                  label="Members"
                  columns={MEMBERS}
                  rows={shown.members}
                  rowKey={({ member }) => member}
                />
              )}
            </Section>
            <Section title="Definition" note={shown.origin === 'file' ? 'from LISTENERS_FILE' : ''}>
              <Facts
                of={[
                  ['Topics', <Topics key="topics" of={shown.topics} />],
                  ['Session', shown.session],
                  ['In flight, at most', count(shown.maxInFlight)],
                  ['Attempts', String(shown.attempts)],
                  ['Takeover', shown.takeover],
                  ['Expired offsets', shown.onExpired],
                ]}
              />
            </Section>
          </>
        )}
      </Show>
    </>
  );
}

function Topics({ of }: { of: readonly string[] }) {
  return (
    <>
      {of.map((topic) => (
        <a key={topic} class="in-list" href={to('topic', { name: topic })}>
          {topic}
        </a>
      ))}
    </>
  );
}

function Partitions({ of: { partitions, members } }: { of: Group }) {
  const max = Math.max(1, ...partitions.map(({ lag }) => lag));
  const names = new Map(members.map(({ member, name }) => [member, name ?? member]));
  const columns: Column<GroupPartition>[] = [
    { head: 'Partition', cell: ({ topic, partition }) => <Text of={`${topic} ${partition}`} /> },
    {
      head: 'Lag',
      cell: ({ lag, lagSeconds }) => (
        <span class="lag">
          <Bar value={lag} max={max} />
          <span class="live-number">
            {count(lag)}
            {lag > 0 && ` · ${duration(lagSeconds)}`}
          </span>
        </span>
      ),
      isNumber: true,
    },
    { head: 'Committed', cell: ({ committed }) => (committed < 0 ? '–' : count(committed)), isNumber: true },
    { head: 'Next', cell: ({ next }) => count(next), isNumber: true },
    {
      head: 'Read by',
      cell: ({ member }) => <Text of={member && (names.get(member) ?? member)} class="clip" />,
    },
    { head: 'State', cell: ({ state }) => <Status of={state} /> },
    {
      head: 'Why',
      cell: ({ why, expired }) => (
        <>
          {expired > 0 && `${plural(expired, 'message')} expired unread. `}
          {why}
        </>
      ),
      class: 'grow',
    },
  ];
  return (
    <Section title="Partitions">
      <Table
        label="Partitions"
        columns={columns}
        rows={partitions}
        rowKey={({ topic, partition }) => `${topic} ${partition}`}
      />
    </Section>
  );
}
