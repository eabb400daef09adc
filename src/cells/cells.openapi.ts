import {
  COUNT,
  choice,
  FLAG,
  INTEGER,
  list,
  named,
  nullable,
  object,
  type Shown,
  TEXT,
} from '../http/schema.ts';

const SLOTS = { ...TEXT, description: 'Ranges of slots, such as `0-127,130`.' };

const CELL = named(
  'Cell',
  object({
    name: TEXT,
    number: nullable(INTEGER),
    home: { ...FLAG, description: 'It has the catalogue and the definitions.' },
    state: choice(['starting', 'up', 'away', 'refused']),
    reason: { ...nullable(TEXT), description: 'Why it is not up.' },
    served: { ...FLAG, description: 'Whether this replica processes its messages.' },
    definitionsCurrent: { ...FLAG, description: 'Whether it has all definitions of the home cell.' },
    slots: COUNT,
    ranges: SLOTS,
  }),
);

export const CELL_LIST = object({
  items: list(CELL),
  version: { ...INTEGER, description: 'Grows with every change of the catalogue.' },
});
export type CellListView = Shown<typeof CELL_LIST>;
