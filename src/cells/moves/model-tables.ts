import type { ReadModel } from '../../contract/read-model.ts';
import type { Database } from '../../database/database.ts';
import { slotOf } from '../slot-of.ts';
import { type Content, columnsOf } from './parcels.ts';
import { MoveRefused } from './refused.ts';

/** modelTables.list — of a read model. $1 schema */
export const TABLES_OF_MODEL = `
  SELECT relname AS name FROM pg_class
  WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p') AND relname <> 'migration'`;

const KEYS_AT_ONCE = 10_000;

/** Rows of the read models that belong to keys of the slot. Throws if a read model does not say which these are. */
export async function contentsOfModels(
  database: Database,
  models: readonly ReadModel[],
  slot: number,
): Promise<Content[]> {
  const contents: Content[] = [];
  for (const model of models) {
    const columns = await keyColumnsOf(database, model);
    for (const [name, column] of columns) contents.push(await contentOf(database, model, name, column, slot));
  }
  return contents;
}

/** Table and column, in the order in which rows are inserted. */
async function keyColumnsOf(database: Database, { name, keyColumns = {} }: ReadModel) {
  const tables = await database.query<{ name: string }>(TABLES_OF_MODEL, [name]);
  const unknown = tables.find((table) => keyColumns[table.name] === undefined);
  if (unknown)
    throw new MoveRefused(
      `the read model "${name}" does not say which column of its table "${unknown.name}" has the key of its messages (keyColumns)`,
    );
  return Object.entries(keyColumns);
}

async function contentOf(
  database: Database,
  { name: schema }: ReadModel,
  name: string,
  column: string,
  slot: number,
): Promise<Content> {
  const table = `"${schema}"."${name}"`;
  const known = await columnsOf(database, table);
  const type = known.find((one) => one.name === column)?.type;
  if (type === undefined)
    throw new MoveRefused(
      `the read model "${schema}" names a column in keyColumns that its table "${name}" does not have: "${column}"`,
    );
  const keys = await keysOfSlot(database, table, column, slot);
  return {
    table,
    condition: `packed."${column}" = ANY ($3::${type}[])`,
    parameters: [keys],
    order: 'packed.ctid',
  };
}

/** All keys in a column of a table whose slot it is. The lane of the slot is stopped, so no others are added. */
export function keysOfSlot(
  database: Database,
  table: string,
  column: string,
  slot: number,
): Promise<string[]> {
  return database.transaction(async (tx) => {
    const keys: string[] = [];
    await tx.execute(
      `DECLARE keys_of_slot NO SCROLL CURSOR FOR SELECT DISTINCT "${column}"::text AS key FROM ${table} WHERE "${column}" IS NOT NULL`,
    );
    for (;;) {
      const rows = await tx.query<{ key: string }>(`FETCH ${KEYS_AT_ONCE} FROM keys_of_slot`);
      keys.push(...rows.flatMap(({ key }) => (slotOf(key) === slot ? [key] : [])));
      if (rows.length < KEYS_AT_ONCE) return keys;
    }
  });
}
