import type pg from 'pg';
import { countDifferences, firstDifferences, TABLES } from './diff.sql.ts';

const MAX_ROWS = 100;
/** A value that is longer is cut: the diff is stored and shown. */
const MAX_TEXT = 500;

interface TableDiff {
  readonly table: string;
  readonly onlyOld: number;
  readonly onlyNew: number;
  readonly different: number;
}

type Row = Readonly<Record<string, unknown>>;

interface Difference {
  readonly table: string;
  readonly kind: 'only-old' | 'only-new' | 'different';
  readonly old: Row | null;
  readonly new: Row | null;
}

export interface Diff {
  readonly tables: readonly TableDiff[];
  /** The first 100. */
  readonly rows: readonly Difference[];
}

interface Table {
  readonly name: string;
  readonly old: boolean;
  readonly new: boolean;
  readonly columns: readonly string[] | null;
  readonly key: readonly string[] | null;
}

/** Compares the tables of two schemas, on a connection with a snapshot. */
export class DiffTables {
  constructor(
    private readonly reader: pg.Client,
    private readonly living: string,
    private readonly next: string,
  ) {}

  async compare(): Promise<Diff> {
    const { rows: tables } = await this.reader.query<Table>(TABLES, [this.living, this.next]);
    const counts: TableDiff[] = [];
    const rows: Difference[] = [];
    for (const table of tables) {
      const one = await this.compareOne(table, MAX_ROWS - rows.length);
      counts.push(one.counts);
      rows.push(...one.rows);
    }
    return { tables: counts, rows };
  }

  private async compareOne(table: Table, max: number): Promise<{ counts: TableDiff; rows: Difference[] }> {
    const { name, columns } = table;
    const counts = { table: name, onlyOld: 0, onlyNew: 0, different: 0 };
    if (!columns) return { counts: await this.countAll(table, counts), rows: [] };
    const compared = { ...table, columns };
    const found = await this.reader.query(countDifferences(compared, this.living, this.next));
    for (const { kind, count } of found.rows)
      counts[kind === 'only-old' ? 'onlyOld' : kind === 'only-new' ? 'onlyNew' : 'different'] = count;
    if (found.rows.length === 0 || max === 0) return { counts, rows: [] };
    const { rows } = await this.reader.query(firstDifferences(compared, this.living, this.next), [max]);
    return {
      counts,
      rows: rows.map((row) => ({ table: name, kind: row.kind, old: cut(row.old), new: cut(row.new) })),
    };
  }

  /** A table that only one of them has. */
  private async countAll({ name, old }: Table, counts: TableDiff): Promise<TableDiff> {
    const { rows } = await this.reader.query(
      `SELECT count(*)::int AS n FROM ${old ? this.living : this.next}."${name}"`,
    );
    return old ? { ...counts, onlyOld: rows[0].n } : { ...counts, onlyNew: rows[0].n };
  }
}

function cut(row: Row | null): Row | null {
  if (!row) return null;
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value);
      return [name, text && text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : value];
    }),
  );
}
