import type { DeadLetter, DeadLetterFilter, DeadLetterGroup } from '../../api-types.ts';
import { count, plural } from '../../format.ts';
import { useGet, usePages } from '../../load.ts';
import { Act } from '../../parts/confirm.tsx';
import { ChoiceFilter, Filters, TextFilter, TimeFilter } from '../../parts/fields.tsx';
import { Heading, Section } from '../../parts/heading.tsx';
import { KeyLink, MessageLink, Text } from '../../parts/links.tsx';
import { Empty, Show, ShowPages } from '../../parts/states.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { route, to } from '../../router.ts';
import { askBulk } from './bulk.tsx';

const FILTERS = ['stage', 'listener', 'group', 'type', 'key', 'error', 'since'] as const;

/** Failures by similar error, then the letters; what is done is done to the filter, not to a page of it. */
export function DeadLetters() {
  const { query } = route.value;
  const filter = Object.fromEntries(
    FILTERS.filter((name) => query[name]).map((name) => [name, query[name]]),
  ) as DeadLetterFilter;
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <>
      <Heading
        title="Dead letters"
        lead="What used up its attempts. Nothing happens to it until somebody decides."
      >
        <Act
          label={isFiltered ? 'Discard what matches…' : 'Discard all…'}
          onClick={() => askBulk('discard', filter)}
        />
        <Act
          label={isFiltered ? 'Revive what matches…' : 'Revive all…'}
          kind="primary"
          onClick={() => askBulk('revive', filter)}
        />
      </Heading>
      <Filters>
        <ChoiceFilter name="stage" label="Stage" value={query.stage} choices={['inbox', 'outbox', 'group']} />
        <TextFilter name="listener" label="Listener" value={query.listener} />
        <TextFilter name="group" label="Group" value={query.group} />
        <TextFilter name="type" label="Type" value={query.type} />
        <TextFilter name="key" label="Key" value={query.key} />
        <TextFilter name="error" label="Error contains" value={query.error} />
        <TimeFilter name="since" label="Dead since" value={query.since} />
        {isFiltered && <a href={to('dead-letters')}>Clear</a>}
      </Filters>
      <Groups filter={filter} />
      <Letters filter={filter} />
    </>
  );
}

type Filter = Readonly<Record<string, string | undefined>>;

function Groups({ filter }: { filter: DeadLetterFilter }) {
  const groups = useGet<{ items: readonly DeadLetterGroup[] }>('v1/dead-letters/groups', filter as Filter, 5);
  const total = groups.data?.items.reduce((sum, group) => sum + group.count, 0) ?? 0;
  return (
    <Section title="By similar error" note={total > 0 && plural(total, 'dead letter')}>
      <Show of={groups} what="the groups">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No dead letters">
              What has used up its attempts would be here, grouped by its error.
            </Empty>
          ) : (
            <Table
              label="Dead letters by similar error"
              columns={GROUPS}
              rows={items}
              rowKey={({ stage, listener, group, fingerprint }) =>
                `${stage} ${listener} ${group} ${fingerprint}`
              }
            />
          )
        }
      </Show>
    </Section>
  );
}

function filterOf({ stage, listener, group, fingerprint }: DeadLetterGroup): DeadLetterFilter {
  return {
    stage,
    error: fingerprint,
    ...(listener ? { listener } : {}),
    ...(group ? { group } : {}),
  };
}

const GROUPS: Column<DeadLetterGroup>[] = [
  {
    head: 'Error',
    cell: (group) => (
      <a href={to('dead-letters', filterOf(group) as Filter)}>
        <bdi class="clip-2">{group.example.error}</bdi>
      </a>
    ),
    class: 'grow',
  },
  {
    head: 'Where',
    cell: ({ stage, listener, group }) => <Text of={listener ?? group ?? stage} class="clip" />,
  },
  { head: 'Letters', cell: (group) => <strong>{count(group.count)}</strong>, isNumber: true },
  { head: 'First', cell: ({ first }) => <Ago at={first} />, isNumber: true },
  { head: 'Last', cell: ({ last }) => <Ago at={last} />, isNumber: true },
  {
    head: 'Actions',
    cell: (group) => (
      <>
        <Act label="Discard…" onClick={() => askBulk('discard', filterOf(group))} />
        <Act label="Revive…" onClick={() => askBulk('revive', filterOf(group))} />
      </>
    ),
    class: 'row-actions',
  },
];

const LETTERS: Column<DeadLetter>[] = [
  {
    head: 'Message',
    cell: ({ message, source }) => <MessageLink id={message} source={source} />,
    class: 'grow',
  },
  {
    head: 'Where',
    cell: ({ stage, listener, group }) => <Text of={listener ?? group ?? stage} class="clip" />,
  },
  { head: 'Error', cell: ({ error }) => <Text of={error} class="clip" /> },
  { head: 'Key', cell: ({ key }) => <KeyLink of={key} />, class: 'id-cell' },
  { head: 'Waiting behind', cell: ({ waiting }) => (waiting >= 100 ? '100+' : waiting), isNumber: true },
  { head: 'Attempts', cell: ({ attempt }) => attempt, isNumber: true },
  { head: 'Died', cell: ({ diedAt }) => <Ago at={diedAt} />, isNumber: true },
];

function Letters({ filter }: { filter: DeadLetterFilter }) {
  const letters = usePages<DeadLetter>('v1/dead-letters', { limit: 50, ...(filter as Filter) });
  if (!letters.isLoading && !letters.failure && letters.items.length === 0) return null;
  return (
    <Section title="Letters" note="newest first">
      <ShowPages of={letters} what="dead letters" empty={null}>
        {(items) => (
          <Table
            label="Dead letters"
            columns={LETTERS}
            rows={items}
            rowKey={({ stage, source, id }) => `${stage} ${source} ${id}`}
          />
        )}
      </ShowPages>
    </Section>
  );
}
