import { COUNT, choice, list, named, nullable, object, type Shown, TEXT, TIME } from '../../http/schema.ts';

const MOVE = named(
  'SlotMove',
  object({
    id: TEXT,
    slot: COUNT,
    from: TEXT,
    to: TEXT,
    state: {
      ...choice(['waiting', 'preparing', 'closed', 'cleaning', 'done', 'undone']),
      description:
        '`preparing`: nothing of the slot is processed; `closed`: its posts wait; `cleaning`: it is in the other cell.',
    },
    error: { ...nullable(TEXT), description: 'Why it was undone.' },
    rows: { ...nullable(COUNT), description: 'How many rows were moved.' },
    pauseMs: { ...nullable(COUNT), description: 'How long posts waited.' },
    replica: { ...nullable(TEXT), description: 'Which replica moves it.' },
    createdAt: TIME,
    createdBy: TEXT,
    endedAt: nullable(TIME),
  }),
);
export type MoveView = Shown<typeof MOVE>;

export const MOVE_LIST = object({ items: list(MOVE) });
export type MoveListView = Shown<typeof MOVE_LIST>;
