import * as s from '../../http/schema.ts';

export const ALIVE = s.named('Alive', s.object({ status: s.choice(['alive']) }));
export const STALLED = s.named(
  'Stalled',
  s.object({
    status: s.choice(['stalled']),
    loops: { ...s.list(s.TEXT), description: 'The names of the loops.' },
  }),
);
export type Liveness = s.Shown<typeof ALIVE> | s.Shown<typeof STALLED>;

const CELLS = {
  ...s.map(s.choice(['starting', 'up', 'away', 'refused'])),
  description: 'With CELLS: each cell, as this replica sees it.',
};

export const READY = s.named('Ready', s.object({ status: s.choice(['ready']) }, { cells: CELLS }));
export const NOT_READY = s.named(
  'NotReady',
  s.object({ status: s.choice(['starting', 'draining']) }, { cells: CELLS }),
);
export type ReadinessView = s.Shown<typeof READY> | s.Shown<typeof NOT_READY>;
