import { ApiName, ApiNewName } from '../http/names.ts';
import * as s from '../http/schema.ts';

export const ApiTopic = ApiName('topic', 'topic', 'orders');
export const ApiNewTopic = ApiNewName('topic', 'orders');

export const TOPIC = s.named(
  'Topic',
  s.object({
    name: s.TEXT,
    types: { ...s.list(s.TEXT), description: '`*` stands for any characters.' },
    retention: { ...s.DURATION, example: '7d', description: 'How long messages stay in it.' },
    kind: {
      ...s.choice(['topic', 'dead', 'revived']),
      description: '`dead` and `revived` belong to a group: what it rejected, and what was revived of it.',
    },
    origin: { ...s.choice(['api', 'file', 'group']), description: '`file`: LISTENERS_FILE.' },
    createdAt: s.TIME,
    updatedAt: s.TIME,
    partitions: s.list(
      s.object({
        partition: s.COUNT,
        earliest: { ...s.INTEGER, description: 'The first offset that is kept.' },
        next: { ...s.INTEGER, description: 'The offset of the next message.' },
      }),
    ),
  }),
);
export type TopicView = s.Shown<typeof TOPIC>;

/** A message of a topic, whoever reads it. */
export const ENTRY_FIELDS = {
  offset: s.COUNT,
  id: s.TEXT,
  source: s.TEXT,
  type: s.TEXT,
  key: s.TEXT,
  headers: s.map(s.TEXT),
  timestamp: { ...s.TIME, description: 'When it occurred, or else when it was received.' },
  payload: { ...s.ANY, description: 'As it was posted.' },
} as const;

const ORIGIN = s.object({
  topic: { ...s.nullable(s.TEXT), description: 'Null: it was deleted.' },
  partition: s.COUNT,
  offset: s.COUNT,
});

export const BROWSED = s.named(
  'TopicMessages',
  s.object({
    topic: s.TEXT,
    partition: s.COUNT,
    earliest: { ...s.INTEGER, description: 'The first offset that is kept.' },
    next: { ...s.INTEGER, description: 'The offset of the next message.' },
    from: { ...s.INTEGER, description: 'The offset of the first of `messages`, or else the one asked for.' },
    to: {
      ...s.nullable(s.INTEGER),
      description: 'The offset of the last of `messages`; null: there are none.',
    },
    count: s.COUNT,
    messages: s.list(
      s.named(
        'TopicMessage',
        s.object(ENTRY_FIELDS, {
          reason: { ...s.TEXT, description: 'Why a group rejected it; only in the topics of a group.' },
          attempts: s.COUNT,
          origin: { ...ORIGIN, description: 'Where the group read it.' },
        }),
      ),
    ),
  }),
);
export type TopicMessages = s.Shown<typeof BROWSED>;
