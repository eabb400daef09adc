import { choice, list, map, named, object, type Shown, TEXT } from '../../http/schema.ts';

export const ALIVE = named('Alive', object({ status: choice(['alive']) }));
export const STALLED = named(
  'Stalled',
  object({ status: choice(['stalled']), loops: { ...list(TEXT), description: 'The names of the loops.' } }),
);
export type Liveness = Shown<typeof ALIVE> | Shown<typeof STALLED>;

const CELLS = {
  ...map(choice(['starting', 'up', 'away', 'refused'])),
  description: 'With CELLS: each cell, as this replica sees it.',
};

export const READY = named('Ready', object({ status: choice(['ready']) }, { cells: CELLS }));
export const NOT_READY = named(
  'NotReady',
  object({ status: choice(['starting', 'draining']) }, { cells: CELLS }),
);
export type ReadinessView = Shown<typeof READY> | Shown<typeof NOT_READY>;
