import type { Catalogue } from './catalogue.ts';
import type { Cell } from './cell.ts';

/** The cells, for those who report on them or direct requests to them. */
export interface CellsView {
  readonly all: readonly Cell[];
  readonly home: Cell;
  readonly catalogue: Catalogue;
  /** The home cell first. */
  readonly names: readonly string[];
  byName(name: string): Cell | undefined;
  byNumber(number: number): Cell | undefined;
  /** Copies what has just been defined. Returns the cells that do not know it yet. */
  copyDefinitions(): Promise<readonly string[]>;
}
