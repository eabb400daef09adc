/** The tables of both schemas, with the columns that both have and the primary key of the living one. $1 living, $2 next */
export const TABLES = `
  SELECT relname AS name, bool_or(nspname = $1) AS old, bool_or(nspname = $2) AS new,
         (SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute AS a
          JOIN pg_attribute AS b ON b.attname = a.attname AND b.attnum > 0 AND NOT b.attisdropped
          WHERE a.attrelid = to_regclass(format('%I.%I', $1::text, relname)) AND b.attrelid = to_regclass(format('%I.%I', $2::text, relname))
            AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
         (SELECT array_agg(attname::text ORDER BY attnum) FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
          WHERE indisprimary AND indrelid = to_regclass(format('%I.%I', $1::text, relname))) AS key
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
  WHERE nspname IN ($1, $2) AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'migration'
  GROUP BY relname ORDER BY relname`;

const quote = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** No column of a read model has this name. Of an alias, `n.*` is the row: `n` would be the column of that name. */
const NTH_NAME = 'sluice nth';
const NTH = quote(NTH_NAME);

interface Compared {
  readonly name: string;
  readonly columns: readonly string[];
  readonly key: readonly string[] | null;
}

/** Pairs of rows that differ. Without a primary key a whole row is its key, so such a row is only in one of them. */
function pairs({ name, columns, key }: Compared, old: string, next: string): string {
  const row = (alias: string) =>
    `ROW(${columns.map((column) => `${alias}.${quote(column)}`).join(', ')})::text`;
  const numbered = (schema: string) =>
    key
      ? `${schema}.${quote(name)}`
      : `(SELECT *, row_number() OVER (PARTITION BY ${row('t')}) AS ${NTH} FROM ${schema}.${quote(name)} AS t)`;
  const same = key
    ? key.map((column) => `o.${quote(column)} = n.${quote(column)}`).join(' AND ')
    : `${row('o')} = ${row('n')} AND o.${NTH} = n.${NTH}`;
  const there = key ? quote(key[0]!) : NTH;
  return `
    FROM ${numbered(old)} AS o FULL JOIN ${numbered(next)} AS n ON ${same}
    WHERE o.${there} IS NULL OR n.${there} IS NULL OR ${row('o')} <> ${row('n')}`;
}

const KIND = (there: string) =>
  `CASE WHEN n.${there} IS NULL THEN 'only-old' WHEN o.${there} IS NULL THEN 'only-new' ELSE 'different' END`;

/** How many rows differ, by how. */
export function countDifferences(table: Compared, old: string, next: string): string {
  const there = table.key ? quote(table.key[0]!) : NTH;
  return `SELECT ${KIND(there)} AS kind, count(*)::int AS count ${pairs(table, old, next)} GROUP BY 1`;
}

/** The first of them, by their key. $1 how many */
export function firstDifferences(table: Compared, old: string, next: string): string {
  const there = table.key ? quote(table.key[0]!) : NTH;
  const value = (column: string) => `COALESCE(o.${quote(column)}, n.${quote(column)})`;
  // Any type of a key has an order; json, for one, has none.
  const order = table.key ? table.key.map(value) : table.columns.map((column) => `${value(column)}::text`);
  const side = (alias: string) =>
    `CASE WHEN ${alias}.${there} IS NOT NULL THEN to_jsonb(${alias}.*) - '${NTH_NAME}' END`;
  return `
    SELECT ${KIND(there)} AS kind, ${side('o')} AS old, ${side('n')} AS new ${pairs(table, old, next)}
    ORDER BY ${order.join(', ')} LIMIT $1`;
}
