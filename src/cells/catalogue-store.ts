import { SettingsError } from '../config/settings.ts';
import type { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import {
  ADD_CELLS,
  ADD_FENCE,
  BECOME,
  CELLS,
  CLOSES_SLOT,
  COUNT_APART,
  COUNTS_APART,
  DIVIDE_SLOTS,
  IS_FENCED,
  IS_PART,
  IS_USED,
  LOCK_FENCE,
  OWN_POSITIONS,
  SELF,
  SET_FENCE,
  SHARE_FENCE,
  SLOTS_OF_CELLS,
  SORTS_BY_CODE_POINTS,
  TAKE_TURN,
} from './catalogue.sql.ts';
import { CellRefused } from './cell-refused.ts';
import { SLOTS } from './slot-of.ts';

/** Where a slot is. */
export interface SlotRow {
  readonly slot: number;
  readonly cell: number;
  readonly version: number;
  readonly moving_to: number | null;
}

interface CellRow {
  readonly number: number;
  readonly name: string;
}

interface Self extends CellRow {
  readonly catalogue: string;
}

export interface CatalogueRows {
  readonly cells: readonly CellRow[];
  readonly slots: readonly SlotRow[];
}

/** The catalogue, in the home cell; and what a cell's own database knows of it. */
export class CatalogueStore {
  constructor(private readonly home: Database) {}

  /** Makes the home cell's database the home of a catalogue with at least these cells. Returns its id. */
  async open(names: readonly string[]): Promise<string> {
    return this.home.transaction(async (tx) => {
      await takeTurn(tx);
      const self = await become(tx, { catalogue: null, number: 0, name: names[0]! });
      await tx.execute(ADD_CELLS, [names]);
      await tx.execute(DIVIDE_SLOTS, [SLOTS, names.length]);
      return self.catalogue;
    });
  }

  async exists(): Promise<boolean> {
    return (await this.home.query(SELF)).length > 0;
  }

  async read(): Promise<CatalogueRows> {
    const [cells, slots] = await Promise.all([
      this.home.query<CellRow>(CELLS),
      this.home.query<SlotRow>(SLOTS_OF_CELLS),
    ]);
    return { cells, slots };
  }

  /** Makes a database this cell: from then on it takes only messages of slots that are open in it. */
  async join(database: Database, self: Self, slots: readonly SlotRow[]): Promise<void> {
    await database.transaction(async (tx) => {
      await takeTurn(tx);
      await refuseLanguage(tx, self.name);
      await become(tx, self);
      await setFence(tx, self.number, slots);
      for (const table of ['inbox', 'outbox'] as const) await countApart(tx, table, self.number);
      if ((await tx.query(IS_FENCED)).length === 0) await tx.execute(ADD_FENCE);
    });
  }

  /** Opens and closes slots in a cell; a closed one takes nothing from the COMMIT on. All posts wait while one is closed. */
  async fence(database: Database, cell: number, slots: readonly SlotRow[]): Promise<void> {
    await database.transaction(async (tx) => {
      if ((await tx.query(CLOSES_SLOT, fenceOf(cell, slots))).length > 0) await tx.query(LOCK_FENCE);
      await setFence(tx, cell, slots);
    });
  }
}

/** Throws if a database has only some of the keys: a replica without CELLS would refuse all others, and define what no cell knows. */
export async function refuseCell(database: Database): Promise<void> {
  const [self] = await database.query<{ name: string }>(IS_PART);
  if (!self) return;
  throw new SettingsError([
    `The database is the cell "${self.name}" of several: set CELLS as the other replicas have it, in place of DATABASE_URL`,
  ]);
}

/** What is there would have other numbers than in the home cell, or keys of other cells. */
async function refuseUsed(tx: Transaction, name: string): Promise<void> {
  const [{ used } = { used: false }] = await tx.query<{ used: boolean }>(IS_USED);
  if (!used) return;
  throw new CellRefused(
    `the database of cell "${name}" has messages or definitions of a Sluice without cells; a new cell needs an empty database`,
  );
}

async function refuseLanguage(tx: Transaction, name: string): Promise<void> {
  const [{ sorts } = { sorts: false }] = await tx.query<{ sorts: boolean }>(SORTS_BY_CODE_POINTS);
  if (sorts) return;
  throw new CellRefused(
    `the database of cell "${name}" sorts text as a language does, so lists could not be merged; ` +
      `create it with the locale C (CREATE DATABASE … TEMPLATE template0 LOCALE 'C')`,
  );
}

async function become(tx: Transaction, self: Omit<Self, 'catalogue'> & { catalogue: string | null }) {
  const isNew = (await tx.execute(BECOME, [self.catalogue, self.number, self.name])) > 0;
  if (isNew && self.number > 0) await refuseUsed(tx, self.name);
  const [is] = await tx.query<Self>(SELF);
  if (
    is!.name === self.name &&
    is!.number === self.number &&
    (self.catalogue ?? is!.catalogue) === is!.catalogue
  )
    return is!;
  throw new CellRefused(
    `the database of cell "${self.name}" is cell "${is!.name}" of ${is!.catalogue === self.catalogue ? 'this' : 'another'} ` +
      'catalogue; compare CELLS with that of the other replicas',
  );
}

async function countApart(tx: Transaction, table: 'inbox' | 'outbox', cell: number): Promise<void> {
  if ((await tx.query(COUNTS_APART, [table])).length > 0) return;
  await tx.execute(COUNT_APART(table));
  await tx.query(OWN_POSITIONS, [table, cell]);
}

/** One change of the catalogue at a time, until the transaction ends. */
export async function takeTurn(tx: Transaction): Promise<void> {
  await tx.query(TAKE_TURN);
}

/** Opens a slot in a transaction that then writes its messages. */
export async function openFence(tx: Transaction, cell: number, slot: number, version: number): Promise<void> {
  await tx.query(SHARE_FENCE);
  await setFence(tx, cell, [{ slot, cell, version, moving_to: null }]);
}

async function setFence(tx: Transaction, cell: number, slots: readonly SlotRow[]): Promise<void> {
  await tx.execute(SET_FENCE, fenceOf(cell, slots));
}

function fenceOf(cell: number, slots: readonly SlotRow[]): unknown[] {
  const open = slots.map((slot) => slot.cell === cell && slot.moving_to === null);
  return [slots.map(({ slot }) => slot), open, slots.map(({ version }) => version)];
}
