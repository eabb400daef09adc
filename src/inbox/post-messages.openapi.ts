import { applyDecorators } from '@nestjs/common';
import { ApiHeader, ApiResponse } from '@nestjs/swagger';
import {
  ANY,
  COUNT,
  choice,
  FLAG,
  INTEGER,
  list,
  map,
  named,
  object,
  type SchemaObject,
  type Shown,
  TEXT,
  TIME,
} from '../http/schema.ts';
import { MAX_BATCH, MAX_ID, MAX_TYPE } from './fields.ts';
import { STATUSES } from './messages-store.ts';

/** The headers that a POST of messages takes. */
function ApiEnvelope(): MethodDecorator {
  return applyDecorators(
    ApiHeader({
      name: 'Idempotency-Key',
      required: false,
      description:
        'Used as the id if the message has none; up to 200 characters of UTF-8. In a batch up to 196: each message gets it with its index, such as `key/0`.',
    }),
    ApiHeader({
      name: 'Producer-Id',
      required: false,
      description:
        'Up to 200 characters of UTF-8; the numbers of one api key and id are one sequence, for all sources.',
    }),
    ApiHeader({
      name: 'Producer-Sequence',
      required: false,
      schema: COUNT,
      description:
        'Required with `Producer-Id`. Counts up by one per message; of a batch, the number of its first message.',
    }),
    ApiHeader({
      name: 'traceparent',
      required: false,
      description: 'W3C trace context; deliveries continue the trace. A malformed one is ignored.',
    }),
  );
}

const FIELDS = {
  payload: { ...ANY, description: 'Any JSON value.', example: { candidateId: 'c-1' } },
} as const;
const TYPE = {
  ...TEXT,
  minLength: 1,
  maxLength: MAX_TYPE,
  description: 'Not `urn:sluice:…`, which is reserved for the service itself.',
  example: 'urn:ekp:events/candidate-accepted',
};
const OPTIONAL_FIELDS = {
  id: { ...TEXT, minLength: 1, maxLength: MAX_ID },
  key: { ...TEXT, minLength: 1, description: 'Keeps order; at most 256 bytes of UTF-8.' },
  headers: map(TEXT),
  occurredAt: TIME,
  dueAt: { ...TIME, description: 'Not before.' },
  expiresAt: { ...TIME, description: 'Not after.' },
} as const;

/** These routes are checked by hand-written code, so their schemas are written by hand too. */
export const MESSAGE = named('NewMessage', closed(object({ type: TYPE, ...FIELDS }, OPTIONAL_FIELDS)));

/** For a topic, which is the default of the type. */
export const TOPIC_MESSAGE = named(
  'NewTopicMessage',
  closed(object(FIELDS, { type: TYPE, ...OPTIONAL_FIELDS })),
);

export const MESSAGES_BATCH = closed(object({ messages: batchOf(MESSAGE) }));
export const TOPIC_MESSAGES_BATCH = closed(object({ messages: batchOf(TOPIC_MESSAGE) }));

const CLOUD_EVENT = named('CloudEvent', {
  ...object(
    {
      specversion: choice(['1.0']),
      id: TEXT,
      source: { ...TEXT, description: 'Not `urn:sluice:…`, and neither is the type.' },
      type: TEXT,
    },
    { data: ANY },
  ),
  description:
    'A CloudEvent 1.0 in structured mode. In binary mode the body is the data alone, a `ce-…` header may be quoted and is percent-decoded once; a `%` that begins no escape stands for itself. Bytes beyond ASCII must be UTF-8.',
});

/** The body of a POST of one message, by its media type. @ApiBody would give all of them the same schema. */
export function bodyOf(message: SchemaObject) {
  return {
    required: true,
    description: 'A CloudEvent can also be in the headers (binary mode); the body is then its data alone.',
    content: {
      'application/json': { schema: message },
      'application/cloudevents+json': { schema: CLOUD_EVENT },
      'application/cloudevents-batch+json': { schema: batchOf(CLOUD_EVENT) },
    },
  };
}

const RANGE = object({ from: COUNT, to: COUNT });

const ACCEPTED = named(
  'AcceptedMessage',
  object(
    {
      id: TEXT,
      status: {
        ...choice(STATUSES),
        description: 'At the time of the response; `pending` for a new message.',
      },
    },
    {
      duplicate: { ...FLAG, description: 'True when it had been stored before.' },
      gap: { ...RANGE, description: 'Numbers of this producer that have not come yet.' },
      gapFilled: FLAG,
    },
  ),
);
export type AcceptedMessage = Shown<typeof ACCEPTED>;

const ACCEPTED_BATCH = named('AcceptedMessages', object({ messages: list(ACCEPTED) }));

const LOCATION = {
  Location: { description: 'The path of the message; absent for a batch.', schema: TEXT },
};

/** Documents the headers and the responses of a POST of one message. A batch of CloudEvents is posted there, too. */
export function ApiPosted(): MethodDecorator {
  return applyDecorators(
    ApiEnvelope(),
    ApiResponse({
      status: 202,
      description: 'Stored; for a batch, each item is stored or was stored before.',
      schema: { oneOf: [ACCEPTED, ACCEPTED_BATCH] },
      headers: LOCATION,
    }),
    ApiResponse({
      status: 200,
      description: 'Had been stored before.',
      schema: ACCEPTED,
      headers: LOCATION,
    }),
    ApiResponse({ status: 409, description: 'The id is taken by a message with other content.' }),
    ApiRefusals(),
  );
}

/** Documents the headers and the responses of a POST of a batch. */
export function ApiPostedBatch(): MethodDecorator {
  return applyDecorators(
    ApiEnvelope(),
    ApiResponse({
      status: 202,
      description: 'Each item is stored, or was stored before.',
      schema: ACCEPTED_BATCH,
    }),
    ApiResponse({
      status: 409,
      description: 'An id is taken by a message with other content; nothing was stored.',
    }),
    ApiRefusals(),
  );
}

function ApiRefusals(): MethodDecorator {
  return applyDecorators(
    ApiResponse({
      status: 403,
      description:
        'The api key lacks the scope `produce` (`forbidden`); or it is bound to other sources or keys (`foreign`), `errors` lists every such message, and nothing was stored.',
    }),
    ApiResponse({ status: 429, description: 'The api key posts more than API_KEY_RATE_LIMIT.' }),
    ApiResponse({ status: 503, description: 'Cannot be stored at the moment.' }),
  );
}

export const PRODUCER = named(
  'Producer',
  object({
    id: TEXT,
    last: { ...INTEGER, minimum: -1, description: 'The highest number stored; -1: none.' },
    missing: {
      ...list(RANGE),
      description: 'Ranges below `last` that have not been stored, both ends included, ascending.',
    },
  }),
);

export type ProducerView = Shown<typeof PRODUCER>;

function batchOf(items: SchemaObject): SchemaObject {
  return { type: 'array', minItems: 1, maxItems: MAX_BATCH, items };
}

function closed(schema: SchemaObject): SchemaObject {
  return { ...schema, additionalProperties: false };
}
