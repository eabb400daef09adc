import * as s from '../../http/schema.ts';

const QUEUE = {
  ready: { ...s.COUNT, description: 'Waiting for nothing but their turn, or for their listener.' },
  held: { ...s.COUNT, description: 'Waiting behind one of their key.' },
  oldestSeconds: { ...s.SECONDS, description: 'The age of the oldest one; 0: there is none.' },
  deadLetters: s.COUNT,
} as const;
export type QueueView = Pick<BacklogView['inbox'], keyof typeof QUEUE>;

const GROUP = {
  lag: { ...s.COUNT, description: 'Messages that are not committed.' },
  lagSeconds: {
    ...s.SECONDS,
    description: 'The age of the oldest message that the group has not committed.',
  },
  members: { ...s.COUNT, description: 'Those that are alive.' },
  unownedPartitions: s.COUNT,
  expired: { ...s.COUNT, description: 'Messages that were removed before the group read them.' },
  deadLetters: s.COUNT,
} as const;
export type GroupBacklog = Omit<BacklogView['groups'][number], 'name'>;

export const BACKLOG = s.named(
  'Backlog',
  s.object({
    observedAt: s.TIME,
    countedUpTo: {
      ...s.COUNT,
      description: 'Rows of a listener are counted up to this: a number that equals it may be more.',
    },
    inbox: s.object({ ...QUEUE, scheduled: { ...s.COUNT, description: 'Due later.' } }),
    listeners: {
      ...s.list(
        s.object(
          {
            name: s.TEXT,
            state: s.choice(['active', 'paused', 'disabled', 'deleted']),
            ...QUEUE,
            circuitOpen: { ...s.FLAG, description: 'Nothing is sent for now.' },
          },
          { inFlight: { ...s.COUNT, description: 'What consumers have. Only with the mode `pull`.' } },
        ),
      ),
      description: 'By name; also deleted ones with pending deliveries.',
    },
    groups: s.list(s.object({ name: s.TEXT, ...GROUP })),
  }),
);
export type BacklogView = s.Shown<typeof BACKLOG>;
export type ListenerState = BacklogView['listeners'][number]['state'];
