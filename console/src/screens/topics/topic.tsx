import { path } from '../../api.ts';
import type { Topic, TopicEntry } from '../../api-types.ts';
import { count } from '../../format.ts';
import { useGet } from '../../load.ts';
import { Filters, TextFilter } from '../../parts/fields.tsx';
import { Facts, Heading, Section } from '../../parts/heading.tsx';
import { KeyLink, MessageLink, Text } from '../../parts/links.tsx';
import { Bar } from '../../parts/sparkline.tsx';
import { Empty, Show } from '../../parts/states.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { refine, route } from '../../router.ts';

const ENTRIES: Column<TopicEntry>[] = [
  { head: 'Offset', cell: ({ offset }) => count(offset), isNumber: true, class: 'slim' },
  { head: 'Message', cell: ({ id, source }) => <MessageLink id={id} source={source} />, class: 'grow' },
  { head: 'Type', cell: ({ type }) => <Text of={type} class="clip" /> },
  { head: 'Key', cell: ({ key }) => <KeyLink of={key} />, class: 'id-cell' },
  { head: 'Time', cell: ({ timestamp }) => <Ago at={timestamp} />, isNumber: true },
];

export function TopicScreen() {
  const { name = '' } = route.value.query;
  const topic = useGet<Topic>(path`v1/topics/${name}`, {}, 5);
  return (
    <>
      <Heading title={name} lead="A topic" />
      <Show of={topic} what="the topic">
        {(data) => (
          <>
            <Section title="Definition" note={data.origin === 'file' ? 'from LISTENERS_FILE' : ''}>
              <Facts
                of={[
                  ['Types', <Text key="types" of={data.types.join(', ')} />],
                  ['Kept for', data.retention],
                  ['Created', <Ago key="created" at={data.createdAt} />],
                ]}
              />
            </Section>
            <Partitions of={data} />
            <Entries of={data} />
          </>
        )}
      </Show>
    </>
  );
}

function Partitions({ of: { partitions } }: { of: Topic }) {
  const max = Math.max(1, ...partitions.map(({ earliest, next }) => next - earliest));
  type Row = Topic['partitions'][number];
  const columns: Column<Row>[] = [
    {
      head: 'Partition',
      cell: ({ partition }) => (
        <button
          type="button"
          class="link"
          onClick={() => refine({ partition: String(partition), from: undefined })}
        >
          {partition}
        </button>
      ),
    },
    { head: 'First offset', cell: ({ earliest }) => count(earliest), isNumber: true },
    { head: 'Next offset', cell: ({ next }) => count(next), isNumber: true },
    {
      head: 'Messages',
      cell: ({ earliest, next }) => (
        <span class="lag">
          <Bar value={next - earliest} max={max} />
          <span class="live-number">{count(Math.max(0, next - earliest))}</span>
        </span>
      ),
      isNumber: true,
    },
  ];
  return (
    <Section title="Partitions" note="one of them shows its messages below">
      <Table
        label="Partitions"
        columns={columns}
        rows={partitions}
        rowKey={({ partition }) => String(partition)}
      />
    </Section>
  );
}

/** Of the partition in the URL, or else of the first one that has some. */
function Entries({ of: { name, partitions } }: { of: Topic }) {
  const first = partitions.find(({ earliest, next }) => next > earliest)?.partition ?? 0;
  const { partition = String(first), from } = route.value.query;
  const entries = useGet<{ messages: readonly TopicEntry[]; to: number | null; next: number }>(
    path`v1/topics/${name}/messages`,
    { partition, from, limit: 50 },
  );
  return (
    <Section title={`Messages of partition ${partition}`}>
      <Filters isInside>
        <TextFilter name="from" label="From offset" value={from} />
      </Filters>
      <Show of={entries} what="the messages">
        {({ messages, to, next }) =>
          messages.length === 0 ? (
            <Empty title="No messages from this offset on">They are appended when they are applied.</Empty>
          ) : (
            <>
              <Table
                label="Messages"
                columns={ENTRIES}
                rows={messages}
                rowKey={({ offset }) => String(offset)}
              />
              {to !== null && to + 1 < next && (
                <button type="button" class="more" onClick={() => refine({ from: String(to + 1) })}>
                  Next 50
                </button>
              )}
            </>
          )
        }
      </Show>
    </Section>
  );
}
