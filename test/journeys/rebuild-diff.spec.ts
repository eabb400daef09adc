import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { DiffTables } from '../../src/rebuild/diff-tables.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

let database: TestDatabase;
let reader: pg.Client;

beforeAll(async () => {
  database = await createDatabase({ empty: true });
  reader = new pg.Client({ connectionString: database.url });
  await reader.connect();
});
afterAll(async () => {
  await reader.end();
  await database.drop();
});

/** Creates both schemas with these tables, and compares them. */
async function diffOf(living: string, next: string) {
  for (const [name, tables] of Object.entries({ living, next }))
    await reader.query(
      `DROP SCHEMA IF EXISTS ${name} CASCADE; CREATE SCHEMA ${name}; SET search_path = ${name}; ${tables}`,
    );
  return new DiffTables(reader, 'living', 'next').compare();
}

describe('the comparison of a rebuild', () => {
  it('counts all rows that differ, and has the first 100 of them by their key', async () => {
    const rows = (from: number, to: number, text: string) =>
      `INSERT INTO item SELECT n, '${text}' FROM generate_series(${from}, ${to}) AS n;`;
    const TABLE = 'CREATE TABLE item (id int PRIMARY KEY, text text);';
    const { tables, rows: found } = await diffOf(
      `${TABLE} ${rows(1, 250, 'a')} UPDATE item SET text = 'b' WHERE id <= 30`,
      `${TABLE} ${rows(1, 60, 'a')} ${rows(300, 301, 'a')}`,
    );
    expect(tables).toEqual([{ table: 'item', onlyOld: 190, onlyNew: 2, different: 30 }]);
    expect(found).toHaveLength(100);
    expect(found[0]).toEqual({
      table: 'item',
      kind: 'different',
      old: { id: 1, text: 'b' },
      new: { id: 1, text: 'a' },
    });
    expect(found.map((row) => row.old!.id)).toEqual([
      ...Array.from({ length: 30 }, (_, n) => n + 1),
      ...Array.from({ length: 70 }, (_, n) => n + 61),
    ]);
  });

  it('has no more than 100 rows of all tables together', async () => {
    const TABLES = 'CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY);';
    const { rows } = await diffOf(
      TABLES,
      `${TABLES} INSERT INTO a SELECT generate_series(1, 90); INSERT INTO b SELECT generate_series(1, 90)`,
    );
    expect(rows.map(({ table }) => table)).toEqual([...Array(90).fill('a'), ...Array(10).fill('b')]);
  });

  it('pairs equal rows of a table without a primary key, also if the tables do not have the same columns', async () => {
    const { tables, rows } = await diffOf(
      `CREATE TABLE log (text text, more json, old int); INSERT INTO log VALUES ('a', '1', 1), ('a', '1', 2), ('b', '1', 3)`,
      `CREATE TABLE log (text text, more json); INSERT INTO log VALUES ('a', '1'), ('b', '1'), ('b', '1')`,
    );
    expect(tables).toEqual([{ table: 'log', onlyOld: 1, onlyNew: 1, different: 0 }]);
    expect(rows).toEqual([
      { table: 'log', kind: 'only-old', old: { text: 'a', more: 1, old: expect.any(Number) }, new: null },
      { table: 'log', kind: 'only-new', old: null, new: { text: 'b', more: 1 } },
    ]);
  });

  it('cuts long values, and counts the rows of a table that only one of the schemas has', async () => {
    const TABLE = 'CREATE TABLE item (id int PRIMARY KEY, text text);';
    const { tables, rows } = await diffOf(
      TABLE,
      `${TABLE} INSERT INTO item VALUES (1, repeat('x', 501)); CREATE TABLE "of next" AS SELECT 1 AS id`,
    );
    expect(rows.map((row) => row.new)).toEqual([{ id: 1, text: `${'x'.repeat(500)}…` }]);
    expect(tables).toEqual([
      { table: 'item', onlyOld: 0, onlyNew: 1, different: 0 },
      { table: 'of next', onlyOld: 0, onlyNew: 1, different: 0 },
    ]);
  });
});
