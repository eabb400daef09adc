import * as s from '../http/schema.ts';

export const SOURCE = s.named(
  'Source',
  s.object({
    name: s.TEXT,
    kind: s.choice(['nats', 'rabbitmq']),
    state: {
      ...s.choice(['waiting', 'running', 'failing', 'full']),
      description:
        '`waiting`: no replica reads it now. `failing`: it is opened again and again, see `error`. `full`: it waits until refused messages are discarded.',
    },
    error: s.nullable(s.TEXT),
    since: { ...s.TIME, description: 'Of the state.' },
    replica: { ...s.nullable(s.TEXT), description: 'Which reads it.' },
    accepted: { ...s.COUNT, description: 'Messages that it brought into the inbox.' },
    duplicates: { ...s.COUNT, description: 'Messages that were there already.' },
    refused: {
      ...s.COUNT,
      description: 'Messages that cannot be accepted, and are kept until they are discarded.',
    },
    storedAt: { ...s.nullable(s.TIME), description: 'When a message was last stored.' },
  }),
);
export const SOURCE_LIST = s.object({ items: s.list(SOURCE) });
export type SourceView = s.Shown<typeof SOURCE>;

export const REFUSED = s.named(
  'RefusedMessage',
  s.object({
    number: s.INTEGER,
    place: { ...s.TEXT, description: 'Where the broker had it.' },
    reason: s.TEXT,
    headers: s.map(s.TEXT),
    at: s.TIME,
    bytes: { ...s.COUNT, description: 'Of the body.' },
    excerpt: { ...s.TEXT, description: 'The first KiB of the body, as text.' },
  }),
);
export const DISCARDED = s.object({ discarded: s.COUNT });
