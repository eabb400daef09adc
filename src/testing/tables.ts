import { isDeepStrictEqual } from 'node:util';

type Row = Readonly<Record<string, unknown>>;
/** The rows of each table, by their primary key as text. */
export type Tables = ReadonlyMap<string, ReadonlyMap<string, Row>>;

/** The first cell that differs, or a row that only one of both has: then without a column. */
export interface Difference {
  readonly table: string;
  readonly key: string;
  readonly column: string | undefined;
  readonly live: unknown;
  readonly rebuilt: unknown;
}

interface Queries {
  query<Row>(sql: string, parameters?: readonly unknown[]): Promise<Row[]>;
}

/** Tables with the columns of their primary key; TypeORM's record of migrations is not one of the model's. */
export const TABLES = `
  SELECT relname AS name, COALESCE((
    SELECT json_agg(attname ORDER BY array_position(indkey::int[], attnum::int))
    FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
    WHERE indrelid = pg_class.oid AND indisprimary), '[]') AS key
  FROM pg_class
  WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'migration'
  ORDER BY relname`;

export async function tablesOf(database: Queries, schema: string): Promise<Tables> {
  const tables = new Map<string, ReadonlyMap<string, Row>>();
  const found = await database.query<{ name: string; key: string[] }>(TABLES, [schema]);
  for (const { name, key } of found) {
    const rows = await database.query<{ row: Row }>(
      `SELECT to_jsonb(t) AS row FROM ${schema}."${name}" AS t`,
    );
    tables.set(
      name,
      byKey(
        rows.map(({ row }) => row),
        key,
      ),
    );
  }
  return tables;
}

/** Without a primary key a row is found by all its columns, and equal ones by their number. */
function byKey(rows: readonly Row[], key: readonly string[]): ReadonlyMap<string, Row> {
  const found = new Map<string, Row>();
  for (const row of rows) {
    const columns = key.length > 0 ? key : Object.keys(row);
    const text = columns.map((column) => `${column} ${JSON.stringify(row[column])}`).join(', ');
    let name = text;
    for (let number = 2; found.has(name); number += 1) name = `${text}, number ${number}`;
    found.set(name, row);
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

export function firstDifference(live: Tables, rebuilt: Tables): Difference | undefined {
  for (const [table, rows] of live) {
    const others = rebuilt.get(table) ?? new Map<string, Row>();
    for (const key of new Set([...rows.keys(), ...others.keys()])) {
      const [row, other] = [rows.get(key), others.get(key)];
      if (!row || !other) return { table, key, column: undefined, live: row, rebuilt: other };
      const column = Object.keys(row).find((name) => !isDeepStrictEqual(row[name], other[name]));
      if (column !== undefined) return { table, key, column, live: row[column], rebuilt: other[column] };
    }
  }
  return undefined;
}
