import * as s from '../../http/schema.ts';

const COUNT = { type: 'integer' } as const;
const OBJECTS = { type: 'array', items: { type: 'object' } } as const;

export const KEY = {
  type: 'object',
  required: ['key', 'hold', 'deadLetters', 'waiting', 'recent'],
  properties: {
    key: s.TEXT,
    hold: {
      type: 'object',
      nullable: true,
      required: ['key', 'kind', 'reason', 'until', 'since'],
      properties: {
        key: s.TEXT,
        kind: s.TEXT,
        reason: s.TEXT,
        until: { ...s.TIME, nullable: true, description: 'null: without end.' },
        since: s.TIME,
      },
    },
    deadLetters: {
      type: 'object',
      required: ['count', 'items'],
      properties: { count: COUNT, items: { ...OBJECTS, description: 'The newest 10.' } },
    },
    waiting: {
      type: 'object',
      required: ['count', 'oldestSeconds'],
      properties: {
        count: { ...COUNT, description: 'Up to 10,000.' },
        oldestSeconds: { type: 'number', description: '0 if nothing waits.' },
      },
    },
    recent: { ...OBJECTS, description: 'The newest 20 messages, without payloads.' },
  },
};
