import { applyDecorators } from '@nestjs/common';
import { ApiHeader, ApiResponse } from '@nestjs/swagger';
import * as s from '../http/schema.ts';
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
      schema: s.COUNT,
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
  payload: { ...s.ANY, description: 'Any JSON value.', example: { candidateId: 'c-1' } },
} as const;
const TYPE = {
  ...s.TEXT,
  minLength: 1,
  maxLength: MAX_TYPE,
  description: 'Not `urn:sluice:…`, which is reserved for the service itself.',
  example: 'urn:ekp:events/candidate-accepted',
};
const OPTIONAL_FIELDS = {
  id: { ...s.TEXT, minLength: 1, maxLength: MAX_ID },
  key: { ...s.TEXT, minLength: 1, description: 'Keeps order; at most 256 bytes of UTF-8.' },
  headers: s.map(s.TEXT),
  occurredAt: s.TIME,
  dueAt: { ...s.TIME, description: 'Not before.' },
  expiresAt: { ...s.TIME, description: 'Not after.' },
} as const;

/** These routes are checked by hand-written code, so their schemas are written by hand too. */
export const MESSAGE = s.named('NewMessage', closed(s.object({ type: TYPE, ...FIELDS }, OPTIONAL_FIELDS)));

/** For a topic, which is the default of the type. */
export const TOPIC_MESSAGE = s.named(
  'NewTopicMessage',
  closed(s.object(FIELDS, { type: TYPE, ...OPTIONAL_FIELDS })),
);

export const MESSAGES_BATCH = closed(s.object({ messages: batchOf(MESSAGE) }));
export const TOPIC_MESSAGES_BATCH = closed(s.object({ messages: batchOf(TOPIC_MESSAGE) }));

const CLOUD_EVENT = s.named('CloudEvent', {
  ...s.object(
    {
      specversion: s.choice(['1.0']),
      id: s.TEXT,
      source: { ...s.TEXT, description: 'Not `urn:sluice:…`, and neither is the type.' },
      type: s.TEXT,
    },
    { data: s.ANY },
  ),
  description:
    'A CloudEvent 1.0 in structured mode. In binary mode the body is the data alone, a `ce-…` header may be quoted and is percent-decoded once; a `%` that begins no escape stands for itself. Bytes beyond ASCII must be UTF-8.',
});

/** The body of a POST of one message, by its media type. @ApiBody would give all of them the same schema. */
export function bodyOf(message: s.SchemaObject) {
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

const RANGE = s.object({ from: s.COUNT, to: s.COUNT });

const ACCEPTED = s.named(
  'AcceptedMessage',
  s.object(
    {
      id: s.TEXT,
      status: {
        ...s.choice(STATUSES),
        description: 'At the time of the response; `pending` for a new message.',
      },
    },
    {
      duplicate: { ...s.FLAG, description: 'True when it had been stored before.' },
      gap: { ...RANGE, description: 'Numbers of this producer that have not come yet.' },
      gapFilled: s.FLAG,
    },
  ),
);
export type AcceptedMessage = s.Shown<typeof ACCEPTED>;

const ACCEPTED_BATCH = s.named('AcceptedMessages', s.object({ messages: s.list(ACCEPTED) }));

const LOCATION = {
  Location: { description: 'The path of the message; absent for a batch.', schema: s.TEXT },
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

export const PRODUCER = s.named(
  'Producer',
  s.object({
    id: s.TEXT,
    last: { ...s.INTEGER, minimum: -1, description: 'The highest number stored; -1: none.' },
    missing: {
      ...s.list(RANGE),
      description: 'Ranges below `last` that have not been stored, both ends included, ascending.',
    },
  }),
);

export type ProducerView = s.Shown<typeof PRODUCER>;

function batchOf(items: s.SchemaObject): s.SchemaObject {
  return { type: 'array', minItems: 1, maxItems: MAX_BATCH, items };
}

function closed(schema: s.SchemaObject): s.SchemaObject {
  return { ...schema, additionalProperties: false };
}
