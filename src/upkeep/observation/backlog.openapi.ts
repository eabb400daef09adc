import { COUNT, FLAG, list, named, object, SECONDS, type Shown, TEXT, TIME } from '../../http/schema.ts';

const QUEUE = {
  ready: { ...COUNT, description: 'Waiting for nothing but their turn, or for their listener.' },
  held: { ...COUNT, description: 'Waiting behind one of their key.' },
  oldestSeconds: { ...SECONDS, description: 'The age of the oldest one; 0: there is none.' },
  deadLetters: COUNT,
} as const;
export type QueueView = Pick<BacklogView['inbox'], keyof typeof QUEUE>;

const GROUP = {
  lag: { ...COUNT, description: 'Messages that are not committed.' },
  lagSeconds: { ...SECONDS, description: 'The age of the oldest of them.' },
  members: { ...COUNT, description: 'Those that are alive.' },
  unownedPartitions: COUNT,
  expired: { ...COUNT, description: 'Messages that were removed before the group read them.' },
  deadLetters: COUNT,
} as const;
export type GroupBacklog = Omit<BacklogView['groups'][number], 'name'>;

export const BACKLOG = named(
  'Backlog',
  object({
    observedAt: TIME,
    inbox: object({ ...QUEUE, scheduled: { ...COUNT, description: 'Due later.' } }),
    listeners: {
      ...list(
        object(
          { name: TEXT, ...QUEUE, circuitOpen: { ...FLAG, description: 'Nothing is sent for now.' } },
          { inFlight: { ...COUNT, description: 'What consumers have. Only with the mode `pull`.' } },
        ),
      ),
      description: 'By name; also deleted ones with pending deliveries.',
    },
    groups: list(object({ name: TEXT, ...GROUP })),
  }),
);
export type BacklogView = Shown<typeof BACKLOG>;
