import { CELL_NAMES_FORM, CELLS_FORM, type CellUrl, parseCellNames, parseCells } from '../cells-variable.ts';
import { parsed } from '../setting.ts';

/** Several PostgreSQLs behind one Sluice. */
export const CELLS_SETTINGS = {
  CELLS: parsed<readonly CellUrl[]>({
    secret: true,
    allowed: CELLS_FORM,
    absent: [],
    parse: parseCells,
    about:
      'The databases that share the keys ([cells](cells.md)), the same for all replicas. Replaces `DATABASE_URL`. Default: one database.',
  }),
  CELL_WORKERS: parsed<readonly string[]>({
    allowed: CELL_NAMES_FORM,
    absent: [],
    parse: parseCellNames,
    about:
      'The cells whose messages this replica processes and sends, by its `ROLES`; it accepts messages for all. Default: all.',
  }),
} as const;
