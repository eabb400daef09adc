import {
  COUNT,
  choice,
  FLAG,
  list,
  named,
  nullable,
  object,
  type Shown,
  TEXT,
  TIME,
} from '../../http/schema.ts';

const SELECTING = { ...FLAG, description: 'More is still being selected in the background.' };

export const STARTED_REPLAY = named(
  'StartedReplay',
  object({
    id: TEXT,
    matched: { ...COUNT, description: 'With `selecting`: so far.' },
    selecting: SELECTING,
    location: { ...TEXT, description: 'The path that shows the progress.' },
  }),
);
export type StartedReplayView = Shown<typeof STARTED_REPLAY>;

export const REPLAY = named(
  'Replay',
  object(
    {
      id: TEXT,
      listener: { ...nullable(TEXT), description: 'Null: it was removed.' },
      status: choice(['running', 'finished', 'cancelled']),
      selecting: SELECTING,
      matched: COUNT,
      sent: COUNT,
      dead: COUNT,
      waiting: COUNT,
      filter: object({ since: TIME, onlyFailed: FLAG }, { until: TIME, types: list(TEXT), keys: list(TEXT) }),
      createdAt: TIME,
      createdBy: TEXT,
    },
    { cancelledAt: TIME, cancelledBy: nullable(TEXT) },
  ),
);
export type ReplayView = Shown<typeof REPLAY>;

export const REPLAY_COUNT = named(
  'ReplayCount',
  object({
    matched: COUNT,
    more: { ...FLAG, description: 'There are more than were counted.' },
    dryRun: FLAG,
  }),
);
export type ReplayCount = Shown<typeof REPLAY_COUNT>;
