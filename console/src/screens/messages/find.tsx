import { useEffect } from 'preact/hooks';
import type { Found } from '../../api-types.ts';
import { useGet } from '../../load.ts';
import { Heading } from '../../parts/heading.tsx';
import { Text } from '../../parts/links.tsx';
import { Empty, Show } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { route, to } from '../../router.ts';

const COLUMNS: Column<Found>[] = [
  {
    head: 'Found',
    cell: (found) => (
      <a class="id" href={linkOf(found)}>
        <bdi>{found.id}</bdi>
      </a>
    ),
    class: 'grow',
  },
  { head: 'Kind', cell: ({ kind }) => kind },
  { head: 'Status', cell: ({ status }) => (status ? <Status of={status} /> : <Text of={null} />) },
  { head: 'Type', cell: ({ type }) => <Text of={type} class="clip" /> },
  { head: 'Source', cell: ({ source }) => <Text of={source} class="clip" /> },
  { head: 'When', cell: ({ at }) => <Ago at={at} />, isNumber: true },
];

/** Goes to the one thing that was found, or lists them all. */
export function Find() {
  const { q = '' } = route.value.query;
  const found = useGet<{ items: readonly Found[] }>('v1/find', { q });
  const only = found.data?.items.length === 1 ? found.data.items[0] : undefined;
  useEffect(() => {
    // Replaced, not added: "back" must not lead here again.
    if (only) location.replace(linkOf(only));
  }, [only]);
  return (
    <>
      <Heading title={`Find “${q}”`} />
      <section class="panel" aria-label="Found">
        <Show of={found} what="what was found">
          {({ items }) =>
            items.length === 0 ? (
              <Empty title="Nothing has this id or name">
                Ids and keys have to be complete; names of listeners, topics, groups and schedules may be cut
                off. A message whose retention is over, and that is not in history, is gone. A webhook id is
                found among the 50,000 deliveries that were created last, and of dead letters: of older ones,
                look for the id of the message.
              </Empty>
            ) : (
              <Table
                label="Found"
                columns={COLUMNS}
                rows={items}
                rowKey={({ kind, id, source }) => `${kind} ${source} ${id}`}
              />
            )
          }
        </Show>
      </section>
    </>
  );
}

function linkOf({ kind, id, source }: Found): string {
  switch (kind) {
    case 'message':
      return to('message', { id, source });
    case 'delivery':
      return to('delivery', { id });
    case 'key':
      return to('key', { key: id });
    case 'schedule':
      return to('schedules');
    default:
      return to(kind, { name: id });
  }
}
