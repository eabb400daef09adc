import * as s from '../../http/schema.ts';
import { MESSAGE_VIEW } from '../../inbox/messages.openapi.ts';
import { DEAD_LETTER } from '../dead-letters/dead-letters.openapi.ts';

const COUNT = { type: 'integer' } as const;

export const KEY = {
  title: 'Key',
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
        until: { ...s.TIME, nullable: true, description: 'null: indefinitely.' },
        since: s.TIME,
      },
    },
    deadLetters: {
      type: 'object',
      required: ['count', 'items'],
      properties: {
        count: COUNT,
        items: { type: 'array', items: DEAD_LETTER, description: 'The newest 10.' },
      },
    },
    waiting: {
      type: 'object',
      required: ['count', 'oldestSeconds'],
      properties: {
        count: { ...COUNT, description: 'Up to 10,000.' },
        oldestSeconds: { type: 'number', description: '0 if nothing waits.' },
      },
    },
    recent: { type: 'array', items: MESSAGE_VIEW, description: 'The newest 20 messages, without payloads.' },
  },
};
