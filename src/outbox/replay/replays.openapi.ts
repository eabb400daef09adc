import * as s from '../../http/schema.ts';

const SELECTING = { ...s.FLAG, description: 'More is still being selected in the background.' };

export const STARTED_REPLAY = s.named(
  'StartedReplay',
  s.object({
    id: s.TEXT,
    matched: { ...s.COUNT, description: 'With `selecting`: so far.' },
    selecting: SELECTING,
    location: { ...s.TEXT, description: 'The path that shows the progress.' },
  }),
);
export type StartedReplayView = s.Shown<typeof STARTED_REPLAY>;

export const REPLAY = s.named(
  'Replay',
  s.object(
    {
      id: s.TEXT,
      listener: { ...s.nullable(s.TEXT), description: 'Null: it was removed.' },
      status: s.choice(['running', 'finished', 'cancelled']),
      selecting: SELECTING,
      matched: s.COUNT,
      sent: s.COUNT,
      dead: s.COUNT,
      waiting: s.COUNT,
      filter: s.object(
        { since: s.TIME, onlyFailed: s.FLAG },
        { until: s.TIME, types: s.list(s.TEXT), keys: s.list(s.TEXT) },
      ),
      createdAt: s.TIME,
      createdBy: s.TEXT,
    },
    { cancelledAt: s.TIME, cancelledBy: s.nullable(s.TEXT) },
  ),
);
export type ReplayView = s.Shown<typeof REPLAY>;

export const REPLAY_COUNT = s.named(
  'ReplayCount',
  s.object({
    matched: s.COUNT,
    more: { ...s.FLAG, description: 'There are more than were counted.' },
    dryRun: s.FLAG,
  }),
);
export type ReplayCount = s.Shown<typeof REPLAY_COUNT>;
