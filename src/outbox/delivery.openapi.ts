import * as s from '../http/schema.ts';
import { ATTEMPT, RULING } from './fan-out/deliveries.openapi.ts';

const MAYBE_TEXT = { ...s.TEXT, nullable: true };
const COUNT = { type: 'integer' } as const;

/** A delivery with its attempts and its message. */
export const DELIVERY = {
  title: 'DeliveryDetails',
  type: 'object',
  required: [
    'id',
    'messageId',
    'source',
    'type',
    'key',
    'listener',
    'status',
    'attempt',
    'sequence',
    'error',
    'createdAt',
    'settledAt',
    'attempts',
    'attemptsTotal',
  ],
  properties: {
    id: { ...s.TEXT, description: 'The `webhook-id`.' },
    messageId: { ...MAYBE_TEXT, description: 'null if its retention is over.' },
    source: MAYBE_TEXT,
    type: MAYBE_TEXT,
    key: MAYBE_TEXT,
    listener: MAYBE_TEXT,
    status: s.TEXT,
    attempt: COUNT,
    sequence: COUNT,
    error: MAYBE_TEXT,
    createdAt: s.TIME,
    settledAt: { ...s.TIME, nullable: true },
    attempts: { type: 'array', items: ATTEMPT, description: 'The newest 50.' },
    attemptsTotal: COUNT,
    ruling: RULING,
  },
};

export const RESENT = {
  type: 'object',
  required: ['id', 'status', 'replay'],
  properties: {
    id: s.TEXT,
    status: { ...s.TEXT, description: 'Its status until it is sent again.' },
    replay: { ...s.TEXT, description: 'The replay of this one delivery.' },
  },
};
