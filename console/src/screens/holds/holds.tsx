import type { Hold } from '../../api-types.ts';
import { usePages } from '../../load.ts';
import { Act } from '../../parts/confirm.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../../parts/fields.tsx';
import { Heading } from '../../parts/heading.tsx';
import { KeyLink, Text } from '../../parts/links.tsx';
import { Empty, ShowPages } from '../../parts/states.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { route } from '../../router.ts';
import { askEndHold, askHold } from './hold-dialog.tsx';
import { HOLD_KINDS } from './hold-kinds.ts';

const COLUMNS: Column<Hold>[] = [
  { head: 'Key', cell: ({ key }) => <KeyLink of={key} />, class: 'grow' },
  { head: 'Why', cell: ({ kind }) => HOLD_KINDS[kind] ?? kind },
  { head: 'Reason', cell: ({ kind, reason }) => <Text of={reason === kind ? null : reason} /> },
  { head: 'Since', cell: ({ since }) => <Ago at={since} />, isNumber: true },
  { head: 'Until', cell: ({ until }) => (until ? <Ago at={until} /> : 'no end'), isNumber: true },
  {
    head: 'Actions',
    cell: ({ key }) => <Act label="End…" onClick={() => askEndHold(key)} />,
    class: 'row-actions',
  },
];

export function Holds() {
  const { key, kind } = route.value.query;
  const holds = usePages<Hold>('v1/holds', { key, kind }, 5);
  return (
    <>
      <Heading title="Holds" lead="Keys whose messages wait, and why. Other keys continue.">
        <Act label="Hold a key…" onClick={() => askHold()} />
      </Heading>
      <Filters>
        <TextFilter name="key" label="Key" value={key} />
        <ChoiceFilter name="kind" label="Why" value={kind} choices={Object.keys(HOLD_KINDS)} />
      </Filters>
      <section class="panel" aria-label="Held keys">
        <ShowPages
          of={holds}
          what="holds"
          empty={
            <Empty title={key ? 'This key is not held' : kind ? 'No key is held for this' : 'No key is held'}>
              Keys appear here while a message of theirs is retried, waits behind a dead letter, or when an
              operator holds them.
            </Empty>
          }
        >
          {(items) => <Table label="Held keys" columns={COLUMNS} rows={items} rowKey={(hold) => hold.key} />}
        </ShowPages>
      </section>
    </>
  );
}
