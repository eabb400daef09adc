/** parcel.columns — of a table, without those that are computed from others. $1 table */
export const COLUMNS = `
  SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
  WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`;

/** parcel.add — $1 move, $2 number, $3 table, $4 columns */
export const ADD_PARCEL = 'INSERT INTO cell_parcel (move, parcel, name, columns) VALUES ($1, $2, $3, $4)';

/** parcel.list — $1 move */
export const PARCELS = 'SELECT parcel, name, columns FROM cell_parcel WHERE move = $1 ORDER BY parcel';

/**
 * parcel.page — rows of a parcel as array texts, up to $4 rows and about $5 bytes, one row at least.
 * $1 move, $2 number, $3 after
 */
export const PAGE = `
  SELECT ordinal, texts FROM (
    SELECT ordinal, texts::text AS texts,
           sum(octet_length(texts::text)) OVER (ORDER BY ordinal) - octet_length(texts::text) AS bytes_before
    FROM (SELECT ordinal, texts FROM cell_parcel_row
          WHERE move = $1 AND parcel = $2 AND ordinal > $3 ORDER BY ordinal LIMIT $4) AS next
  ) AS counted WHERE bytes_before < $5 ORDER BY ordinal`;

/** parcel.remove — $1 move */
export const REMOVE_ROWS = 'DELETE FROM cell_parcel_row WHERE move = $1';
export const REMOVE_PARCELS = 'DELETE FROM cell_parcel WHERE move = $1';

export interface Column {
  readonly name: string;
  readonly type: string;
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** parcel.pack — copies rows of a table as texts. $1 move, $2 number; the condition may have more */
export const packRows = (table: string, columns: readonly Column[], condition: string, order: string) => `
  INSERT INTO cell_parcel_row (move, parcel, texts)
  SELECT $1::uuid, $2::smallint, ARRAY[${columns.map(({ name }) => `packed.${quoted(name)}::text`).join(', ')}]
  FROM ${table} AS packed WHERE ${condition} ORDER BY ${order}`;

/** parcel.unpack — the opposite; `source` has rows of one text[], `texts`. */
export const unpackRows = (table: string, columns: readonly Column[], source: string, onConflict: string) => `
  INSERT INTO ${table} AS known (${columns.map(({ name }) => quoted(name)).join(', ')})
  OVERRIDING SYSTEM VALUE
  SELECT ${columns.map(({ type }, nth) => `texts[${nth + 1}]::${type}`).join(', ')} FROM ${source} AS source ${onConflict}`;

/** $1 move, $2 number */
export const HERE = '(SELECT texts FROM cell_parcel_row WHERE move = $1 AND parcel = $2 ORDER BY ordinal)';
/** $1 array texts */
export const GIVEN =
  '(SELECT given.texts::text[] AS texts FROM unnest($1::text[]) WITH ORDINALITY AS given(texts, nth) ORDER BY nth)';
