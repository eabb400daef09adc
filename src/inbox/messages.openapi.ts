import type { OpenAPIObject } from '@nestjs/swagger';
import { MAX_BATCH, MAX_ID, MAX_TYPE } from './fields.ts';

type Schemas = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>;
type SchemaObject = Exclude<Schemas[string], { $ref: string }>;

const time: SchemaObject = { type: 'string', format: 'date-time' };

/** These routes are checked by hand-written code, so their schemas are written by hand too. */
export const MESSAGE: SchemaObject = {
  type: 'object',
  required: ['type', 'payload'],
  additionalProperties: false,
  properties: {
    type: {
      type: 'string',
      minLength: 1,
      maxLength: MAX_TYPE,
      description: 'Not `urn:sluice:…`, which is reserved for the service itself.',
      example: 'urn:ekp:events/candidate-accepted',
    },
    payload: { description: 'Any JSON value.', example: { candidateId: 'c-1' } },
    id: { type: 'string', minLength: 1, maxLength: MAX_ID },
    key: { type: 'string', minLength: 1, description: 'Keeps order; at most 256 bytes of UTF-8.' },
    headers: { type: 'object', additionalProperties: { type: 'string' } },
    occurredAt: time,
    dueAt: { ...time, description: 'Not before.' },
    expiresAt: { ...time, description: 'Not after.' },
  },
};

export const CLOUD_EVENT: SchemaObject = {
  type: 'object',
  description:
    'A CloudEvent 1.0 in structured mode (binary and batch mode are understood too). In binary mode a `ce-…` header may be quoted and is percent-decoded once; a `%` that begins no escape stands for itself. Bytes beyond ASCII must be UTF-8.',
  required: ['specversion', 'id', 'source', 'type'],
  properties: {
    specversion: { type: 'string', enum: ['1.0'] },
    id: { type: 'string' },
    source: { type: 'string', description: 'Not `urn:sluice:…`, and neither is the type.' },
    type: { type: 'string' },
    data: {},
  },
};

export const MESSAGES_BATCH: SchemaObject = {
  type: 'object',
  required: ['messages'],
  additionalProperties: false,
  properties: { messages: { type: 'array', minItems: 1, maxItems: MAX_BATCH, items: MESSAGE } },
};

export const ACCEPTED: SchemaObject = {
  type: 'object',
  required: ['id', 'status'],
  properties: {
    id: { type: 'string' },
    status: { type: 'string', example: 'pending' },
    duplicate: { type: 'boolean', description: 'True when it had been stored before.' },
    gap: {
      type: 'object',
      description: 'Numbers of this producer that have not come yet.',
      properties: { from: { type: 'integer' }, to: { type: 'integer' } },
    },
    gapFilled: { type: 'boolean' },
  },
};

export const ACCEPTED_BATCH: SchemaObject = {
  type: 'object',
  required: ['messages'],
  properties: { messages: { type: 'array', items: ACCEPTED } },
};
