import { choice, list, named, object, type Shown, TEXT } from '../../http/schema.ts';

export const ALIVE = named('Alive', object({ status: choice(['alive']) }));
export const STALLED = named(
  'Stalled',
  object({ status: choice(['stalled']), loops: { ...list(TEXT), description: 'The names of the loops.' } }),
);
export type Liveness = Shown<typeof ALIVE> | Shown<typeof STALLED>;

export const READY = named('Ready', object({ status: choice(['ready']) }));
export const NOT_READY = named('NotReady', object({ status: choice(['starting', 'draining']) }));
export type ReadinessView = Shown<typeof READY> | Shown<typeof NOT_READY>;
