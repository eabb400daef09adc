import type { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import {
  ADD_PARCEL,
  COLUMNS,
  type Column,
  GIVEN,
  HERE,
  PAGE,
  PARCELS,
  packRows,
  REMOVE_PARCELS,
  REMOVE_ROWS,
  unpackRows,
} from './parcels.sql.ts';

/** Which rows of a table leave. */
export interface Content {
  readonly table: string;
  /** On the row `packed`; parameters begin with $3. */
  readonly condition: string;
  readonly parameters: readonly unknown[];
  readonly order: string;
}

interface ParcelRow {
  readonly parcel: number;
  readonly name: string;
  readonly columns: readonly string[];
}

const MAX_ROWS = 2_000;
const MAX_BYTES = 8_000_000;

/** A counter or a hold can be there already, of alerts, which every cell has for itself. All other rows are nowhere else. */
const ON_CONFLICT: Readonly<Record<string, string>> = {
  delivery_sequence: 'ON CONFLICT (listener, key) DO UPDATE SET last = GREATEST(known.last, EXCLUDED.last)',
  hold: 'ON CONFLICT (queue, lane, key) DO UPDATE SET until = GREATEST(known.until, EXCLUDED.until)',
};

/** With what must be known of the table before. */
export interface Packable extends Content {
  readonly columns: readonly Column[];
}

export function packable(database: Database, contents: readonly Content[]): Promise<Packable[]> {
  return Promise.all(
    contents.map(async (content) => ({ ...content, columns: await columnsOf(database, content.table) })),
  );
}

/** Copies rows of a table into a parcel of the same database. Returns how many. */
export async function pack(
  tx: Transaction,
  move: string,
  parcel: number,
  { table, condition, parameters, order, columns }: Packable,
): Promise<number> {
  const names = columns.map(({ name }) => name);
  const [, rows] = await Promise.all([
    tx.execute(ADD_PARCEL, [move, parcel, table, names]),
    tx.execute(packRows(table, columns, condition, order), [move, parcel, ...parameters]),
  ]);
  return rows;
}

/** Puts everything back into the tables it was taken from. */
export async function unpackHere(tx: Transaction, move: string): Promise<void> {
  for (const { parcel, name, columns } of await tx.query<ParcelRow>(PARCELS, [move])) {
    const typed = await typedColumns(tx, name, columns);
    await tx.execute(unpackRows(name, typed, HERE, ON_CONFLICT[name] ?? ''), [move, parcel]);
  }
  await removeParcels(tx, move);
}

/** Inserts everything into the tables of another database. */
export async function unpackThere(from: Database, tx: Transaction, move: string): Promise<void> {
  const parcels = await from.query<ParcelRow>(PARCELS, [move]);
  const columns = await Promise.all(parcels.map((one) => typedColumns(tx, one.name, one.columns)));
  for (const [nth, { parcel, name }] of parcels.entries()) {
    const insert = unpackRows(name, columns[nth]!, GIVEN, ON_CONFLICT[name] ?? '');
    let page = await pageOf(from, move, parcel, 0);
    while (page.length > 0) {
      const [next] = await Promise.all([
        pageOf(from, move, parcel, page.at(-1)!.ordinal),
        tx.execute(insert, [page.map(({ texts }) => texts)]),
      ]);
      page = next;
    }
  }
}

interface PageRow {
  readonly ordinal: number;
  readonly texts: string;
}

function pageOf(from: Database, move: string, parcel: number, after: number): Promise<PageRow[]> {
  return from.query<PageRow>(PAGE, [move, parcel, after, MAX_ROWS, MAX_BYTES]);
}

export async function removeParcels(tx: Transaction, move: string): Promise<void> {
  await tx.execute(REMOVE_ROWS, [move]);
  await tx.execute(REMOVE_PARCELS, [move]);
}

/** Those that can be written. */
export function columnsOf(on: Pick<Database, 'query'>, table: string): Promise<Column[]> {
  return on.query<Column>(COLUMNS, [table]);
}

/** Throws if the table lacks one of the columns: the two databases are of different versions. */
async function typedColumns(tx: Transaction, table: string, names: readonly string[]): Promise<Column[]> {
  const known = await columnsOf(tx, table);
  return names.map((name) => {
    const column = known.find((one) => one.name === name);
    if (column) return column;
    throw new Error(`the table ${table} has no column ${name}; migrate all cells to the same version`);
  });
}
