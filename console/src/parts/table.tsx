// biome-ignore-all lint/a11y/noRedundantRoles: on a narrow screen cells are blocks, which have no roles of their own
import type { ComponentChildren } from 'preact';

export interface Column<T> {
  readonly head: string;
  readonly cell: (row: T) => ComponentChildren;
  /** Numbers stand at the end of their column. */
  readonly isNumber?: boolean;
  readonly class?: string;
}

interface Props<T> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly rowKey: (row: T) => string;
}

/** Rows of the same kind; on a narrow screen each row is a card. The roles survive the change of `display`. */
export function Table<T>({ label, columns, rows, rowKey }: Props<T>) {
  return (
    <table aria-label={label} role="table" data-rows>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ head, isNumber, class: more }) => (
            <th key={head} scope="col" role="columnheader" class={isNumber ? 'number' : undefined}>
              {more === 'row-actions' ? <span class="unseen">{head}</span> : head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr key={rowKey(row)} role="row">
            {columns.map(({ head, cell, isNumber, class: more = '' }) => (
              <td key={head} role="cell" data-label={head} class={`${isNumber ? 'number' : ''} ${more}`}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
