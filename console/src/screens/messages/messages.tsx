import type { MessageSummary } from '../../api-types.ts';
import { usePages } from '../../load.ts';
import { ChoicesFilter, Filters, TextFilter, TimeFilter } from '../../parts/fields.tsx';
import { Heading } from '../../parts/heading.tsx';
import { KeyLink, MessageLink, Text } from '../../parts/links.tsx';
import { Empty, ShowPages } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { route, to } from '../../router.ts';

const STATUSES = [
  'pending',
  'processing',
  'held',
  'scheduled',
  'finished',
  'dead',
  'discarded',
  'expired',
  'superseded',
];
const FILTERS = ['status', 'type', 'key', 'source', 'error', 'since', 'until'] as const;

const COLUMNS: Column<MessageSummary>[] = [
  { head: 'Message', cell: ({ id, source }) => <MessageLink id={id} source={source} />, class: 'grow' },
  { head: 'Status', cell: ({ status }) => <Status of={status} /> },
  { head: 'Type', cell: ({ type }) => <Text of={type} class="clip" /> },
  { head: 'Key', cell: ({ key }) => <KeyLink of={key} />, class: 'id-cell' },
  { head: 'Source', cell: ({ source }) => <Text of={source} class="clip" /> },
  { head: 'Received', cell: ({ receivedAt }) => <Ago at={receivedAt} />, isNumber: true },
];

/** All messages, newest first, by filters that are in the URL. */
export function Messages() {
  const { query } = route.value;
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query[name]]));
  const pages = usePages<MessageSummary>('v1/messages', { limit: 50, ...filter });
  const isFiltered = FILTERS.some((name) => query[name]);
  return (
    <>
      <Heading title="Messages" lead="Newest first. Payloads are shown with the single message.">
        <button type="button" onClick={pages.reload}>
          Refresh
        </button>
      </Heading>
      <Filters>
        <ChoicesFilter name="status" label="Status" value={query.status} choices={STATUSES} />
        <TextFilter name="type" label="Type" value={query.type} />
        <TextFilter name="key" label="Key" value={query.key} />
        <TextFilter name="source" label="Source" value={query.source} />
        <TextFilter name="error" label="Error" hint="begins with" value={query.error} />
        <TimeFilter name="since" label="Received since" value={query.since} />
        <TimeFilter name="until" label="Received until" value={query.until} />
        {isFiltered && <a href={to('messages')}>Clear</a>}
      </Filters>
      <section class="panel" aria-label="Messages">
        <ShowPages
          of={pages}
          what="messages"
          empty={
            isFiltered ? (
              <Empty title="No message matches">
                Widen the filters, or <a href={to('messages')}>show all</a>. A message whose retention is over
                is gone.
              </Empty>
            ) : (
              <Empty title="No messages yet">
                Producers post them with POST /v1/messages; they appear here as soon as they are stored.
              </Empty>
            )
          }
        >
          {(items) => (
            <Table
              label="Messages"
              columns={COLUMNS}
              rows={items}
              rowKey={({ id, source }) => `${source} ${id}`}
            />
          )}
        </ShowPages>
      </section>
    </>
  );
}
