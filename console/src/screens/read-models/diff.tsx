import { count, plural } from '../../format.ts';
import { Section } from '../../parts/heading.tsx';
import { Empty } from '../../parts/states.tsx';
import { Alarming } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import type { Diff, Difference, TableDiff } from './types.ts';

const TABLES: Column<TableDiff>[] = [
  { head: 'Table', cell: ({ table }) => <code>{table}</code>, class: 'grow' },
  { head: 'Different', cell: ({ different }) => <Count of={different} />, isNumber: true },
  { head: 'Only living', cell: ({ onlyOld }) => <Count of={onlyOld} />, isNumber: true },
  { head: 'Only new', cell: ({ onlyNew }) => <Count of={onlyNew} />, isNumber: true },
];

const WHAT: Readonly<Record<Difference['kind'], string>> = {
  different: 'different',
  'only-old': 'only living',
  'only-new': 'only new',
};

const ROWS: Column<Difference & { readonly number: number }>[] = [
  { head: 'Table', cell: ({ table }) => <code>{table}</code> },
  { head: 'Row is', cell: ({ kind }) => <span class="nowrap">{WHAT[kind]}</span> },
  { head: 'Living', cell: (row) => <Row of={row.old} other={row.new} />, class: 'grow' },
  { head: 'New', cell: (row) => <Row of={row.new} other={row.old} />, class: 'grow' },
];

/** What the new tables have, and the living ones have not, as of one moment. */
export function Differences({ of: { tables, rows } }: { of: Diff }) {
  const total = tables.reduce((sum, one) => sum + one.different + one.onlyOld + one.onlyNew, 0);
  return (
    <>
      <Section
        title="Differences"
        note={total === 0 ? 'the new tables are equal to the living ones' : plural(total, 'row')}
      >
        <Table label="Differences" columns={TABLES} rows={tables} rowKey={({ table }) => table} />
      </Section>
      {total > 0 && (
        <Section title="Rows that differ" note={rows.length < total ? `the first ${rows.length}` : undefined}>
          {rows.length === 0 ? (
            <Empty title="No rows to show">The tables that differ exist on one side only.</Empty>
          ) : (
            <Table
              label="Rows that differ"
              columns={ROWS}
              rows={rows.map((row, number) => ({ ...row, number }))}
              rowKey={({ number }) => String(number)}
            />
          )}
        </Section>
      )}
    </>
  );
}

function Count({ of }: { of: number }) {
  return <Alarming value={of}>{count(of)}</Alarming>;
}

/** One side of a difference. What the other side has as well is muted. */
function Row({ of, other }: { of: Difference['old']; other: Difference['old'] }) {
  if (!of) return <span class="muted">no such row</span>;
  return (
    <dl class="row-side code">
      {Object.entries(of).map(([name, value]) => {
        const isSame = other !== null && textOf(other[name]) === textOf(value);
        return (
          <div key={name} class={isSame ? 'muted' : ''}>
            <dt>{name}</dt>
            <dd>
              <bdi>{textOf(value)}</bdi>
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

function textOf(value: unknown): string {
  return typeof value === 'string' && value !== '' ? value : JSON.stringify(value ?? null);
}
