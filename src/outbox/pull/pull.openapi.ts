import {
  ANY,
  COUNT,
  choice,
  DURATION,
  list,
  map,
  named,
  object,
  type Shown,
  TEXT,
  TIME,
} from '../../http/schema.ts';

const PULLED_MESSAGE = object({
  lease: { ...TEXT, description: 'Opaque; to acknowledge the message with.' },
  id: { ...TEXT, description: 'Of the message; the same at every attempt.' },
  type: TEXT,
  key: TEXT,
  sequence: { ...COUNT, description: 'Counts per listener and key from 1.' },
  attempt: { ...COUNT, description: 'Counts from 1.' },
  headers: map(TEXT),
  timestamp: TIME,
  payload: { ...ANY, description: 'As it was posted.' },
});

/** The response to a pull. */
export const PULLED = named(
  'PulledMessages',
  object(
    {
      messages: list(named('PulledMessage', PULLED_MESSAGE)),
      leaseFor: { ...DURATION, description: 'How long each lease lasts unless it is extended.' },
    },
    {
      waitsFor: {
        ...choice(['messages', 'keys', 'in-flight', 'rate', 'paused-listener', 'disabled-listener']),
        description: 'Why there are no messages.',
      },
      explanation: { ...TEXT, description: 'One sentence for a person.' },
    },
  ),
);
type Pulled = Shown<typeof PULLED>;
export type WaitsFor = NonNullable<Pulled['waitsFor']>;

/** The response to an acknowledgement. */
export const SETTLED_LEASES = named(
  'SettledLeases',
  object({
    leases: {
      ...list(object({ lease: TEXT, outcome: choice(['done', 'fenced', 'unknown']) })),
      description: 'In the order of the request: acknowledge, retry, reject, extend.',
    },
  }),
);
export type SettledLeases = Shown<typeof SETTLED_LEASES>;
