import { plural } from '../../format.ts';
import { useGet } from '../../load.ts';
import { Heading, Section } from '../../parts/heading.tsx';
import { Text } from '../../parts/links.tsx';
import { Empty, Show } from '../../parts/states.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { to } from '../../router.ts';
import { RebuildProgress, RebuildState } from './progress.tsx';
import type { ReadModel } from './types.ts';

const READ_MODELS: Column<ReadModel>[] = [
  { head: 'Read model', cell: ({ name }) => <ReadModelLink name={name} />, class: 'grow' },
  { head: 'Types', cell: ({ types }) => <Types of={types} /> },
  {
    head: 'Latest rebuild',
    cell: ({ rebuild }) =>
      rebuild ? <RebuildState of={rebuild} /> : <span class="muted">never rebuilt</span>,
  },
  {
    head: 'Progress',
    cell: ({ rebuild }) => (rebuild ? <RebuildProgress of={rebuild} /> : <Text of={null} />),
  },
  { head: 'Started', cell: ({ rebuild }) => <Ago at={rebuild?.createdAt} />, isNumber: true },
];

function Types({ of }: { of: readonly string[] }) {
  return of.length === 1 ? (
    <Text of={of[0]} class="clip" />
  ) : (
    <span title={of.join('\n')}>{plural(of.length, 'type')}</span>
  );
}

export function ReadModels() {
  const models = useGet<{ items: readonly ReadModel[] }>('v1/read-models', {}, 2);
  return (
    <>
      <Heading
        title="Read models"
        lead="What messages are applied to. Each can be computed anew beside the living one, compared, and switched to."
      />
      <Section title="Read models">
        <Show of={models} what="read models">
          {({ items }) =>
            items.length === 0 ? (
              <Empty title="No read models">
                This service applies messages to nothing. A read model is a folder of migrations and
                denormalizers.
              </Empty>
            ) : (
              <Table label="Read models" columns={READ_MODELS} rows={items} rowKey={({ name }) => name} />
            )
          }
        </Show>
      </Section>
    </>
  );
}

export function ReadModelLink({ name }: { name: string }) {
  return (
    <a href={to('read-model', { name })}>
      <bdi>{name}</bdi>
    </a>
  );
}
