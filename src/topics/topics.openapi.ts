import { ApiParam } from '@nestjs/swagger';
import { NAME, NAME_FORM } from '../http/names.ts';
import {
  ANY,
  COUNT,
  choice,
  DURATION,
  INTEGER,
  list,
  map,
  named,
  nullable,
  object,
  type Shown,
  TEXT,
  TIME,
} from '../http/schema.ts';

export const ApiTopic = ApiParam({ name: 'topic', example: 'orders', description: 'The name of the topic.' });
export const ApiNewTopic = ApiParam({
  name: 'topic',
  schema: { ...TEXT, pattern: NAME.source, example: 'orders' },
  description: NAME_FORM,
});

export const TOPIC = named(
  'Topic',
  object({
    name: TEXT,
    types: { ...list(TEXT), description: '`*` stands for any characters.' },
    retention: { ...DURATION, example: '7d', description: 'How long messages stay in it.' },
    kind: {
      ...choice(['topic', 'dead', 'revived']),
      description: '`dead` and `revived` belong to a group: what it rejected, and what was revived of it.',
    },
    origin: { ...choice(['api', 'file', 'group']), description: '`file`: LISTENERS_FILE.' },
    createdAt: TIME,
    updatedAt: TIME,
    partitions: list(
      object({
        partition: COUNT,
        earliest: { ...INTEGER, description: 'The first offset that is kept.' },
        next: { ...INTEGER, description: 'The offset of the next message.' },
      }),
    ),
  }),
);
export type TopicView = Shown<typeof TOPIC>;

/** A message of a topic, whoever reads it. */
export const ENTRY_FIELDS = {
  offset: COUNT,
  id: TEXT,
  source: TEXT,
  type: TEXT,
  key: TEXT,
  headers: map(TEXT),
  timestamp: { ...TIME, description: 'When it occurred, or else when it was received.' },
  payload: { ...ANY, description: 'As it was posted.' },
} as const;

const ORIGIN = object({
  topic: { ...nullable(TEXT), description: 'Null: it was deleted.' },
  partition: COUNT,
  offset: COUNT,
});

export const BROWSED = named(
  'TopicMessages',
  object({
    topic: TEXT,
    partition: COUNT,
    earliest: { ...INTEGER, description: 'The first offset that is kept.' },
    next: { ...INTEGER, description: 'The offset of the next message.' },
    from: { ...INTEGER, description: 'The offset of the first of `messages`, or else the one asked for.' },
    to: { ...nullable(INTEGER), description: 'The offset of the last of `messages`; null: there are none.' },
    count: COUNT,
    messages: list(
      named(
        'TopicMessage',
        object(ENTRY_FIELDS, {
          reason: { ...TEXT, description: 'Why a group rejected it; only in the topics of a group.' },
          attempts: COUNT,
          origin: { ...ORIGIN, description: 'Where the group read it.' },
        }),
      ),
    ),
  }),
);
export type TopicMessages = Shown<typeof BROWSED>;
