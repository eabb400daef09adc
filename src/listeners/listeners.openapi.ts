import { ApiParam } from '@nestjs/swagger';
import { NAME, NAME_FORM } from '../http/names.ts';
import {
  COUNT,
  choice,
  DURATION,
  FLAG,
  INTEGER,
  list,
  map,
  named,
  nullable,
  object,
  type Schema,
  type Shown,
  TEXT,
  TIME,
} from '../http/schema.ts';
import { LISTENER_MODES } from './listener-definition.ts';

export const ApiListener = ApiParam({
  name: 'name',
  example: 'billing',
  description: 'The name of the listener.',
});
export const ApiNewListener = ApiParam({
  name: 'name',
  schema: { ...TEXT, pattern: NAME.source, example: 'billing' },
  description: NAME_FORM,
});

const RATE: Schema<number> = { type: 'number' };
const RATE_LIMIT = object(
  { perSecond: RATE, burst: COUNT },
  { perKey: { ...object({ perSecond: RATE }), description: 'For each key by itself.' } },
);

const ALWAYS = {
  name: TEXT,
  mode: choice(LISTENER_MODES),
  types: { ...list(TEXT), description: '`*` matches any characters.' },
  ordered: FLAG,
  retrySchedule: list(DURATION),
  onDead: choice(['skip', 'hold']),
  lanes: COUNT,
  rateLimit: nullable(RATE_LIMIT),
  state: choice(['active', 'paused', 'disabled']),
  stateReason: nullable(TEXT),
  stateSince: TIME,
  health: {
    ...object({
      circuit: {
        ...choice(['closed', 'open']),
        description: '`open`: calls failed, and only a probe is sent from time to time.',
      },
      closedUntil: { ...nullable(TIME), description: 'Nothing is sent until then.' },
      reason: nullable(TEXT),
      rate: object({
        perSecond: nullable(RATE),
        limitedUntil: { ...nullable(TIME), description: 'The rate limit is reached until then.' },
      }),
    }),
    description: 'What keeps deliveries from being sent at the moment.',
  },
  stateBy: { ...TEXT, description: 'The name of an API key, or of the part of the service that changed it.' },
  origin: { ...choice(['api', 'file']), description: '`file`: LISTENERS_FILE.' },
  createdAt: TIME,
  updatedAt: TIME,
} as const;

const OF_WEBHOOKS = {
  url: { ...TEXT, description: 'Only of a webhook. Without an admin key only its origin.' },
  timeout: { ...DURATION, description: 'Of a webhook or a broker.' },
  terminalStatuses: { ...list(INTEGER), description: 'Only of a webhook.' },
  format: { ...choice(['standard', 'cloudevents']), description: 'Only of a webhook.' },
  disableAfter: {
    ...nullable(object({ status: INTEGER, times: COUNT })),
    description: 'Only of a webhook.',
  },
  headers: { ...map(TEXT), description: 'Only of a webhook. Without an admin key the values are hidden.' },
} as const;

const OF_QUEUES = {
  lease: { ...DURATION, description: 'Only with the mode `pull`.' },
  attempts: { ...COUNT, description: 'Only with the mode `pull`.' },
  maxInFlight: { ...COUNT, description: 'Only with the mode `pull`.' },
} as const;

const TLS = object({}, { ca: TEXT, serverName: TEXT });
const OF_BROKERS = {
  nats: {
    ...object({ servers: list(TEXT), subject: TEXT }, { stream: TEXT, tls: TLS }),
    description: 'Only with the mode `nats`.',
  },
  rabbitmq: {
    ...object({ servers: list(TEXT) }, { exchange: TEXT, routingKey: TEXT, vhost: TEXT, tls: TLS }),
    description: 'Only with the mode `rabbitmq`.',
  },
  credentials: {
    ...map(TEXT),
    description: 'Only of a broker: which there are. Their values are never shown.',
  },
} as const;

export const LISTENER = named('Listener', object(ALWAYS, { ...OF_WEBHOOKS, ...OF_QUEUES, ...OF_BROKERS }));
export type ListenerView = Shown<typeof LISTENER>;

export const PUT_LISTENER = named(
  'PutListener',
  object(ALWAYS, {
    ...OF_WEBHOOKS,
    ...OF_QUEUES,
    ...OF_BROKERS,
    secret: {
      ...TEXT,
      example: 'whsec_…',
      description: 'Signs the deliveries of a webhook. Shown only by the request that generated it.',
    },
  }),
);
export type PutListener = Shown<typeof PUT_LISTENER>;

export const ROTATED_SECRET = named(
  'RotatedSecret',
  object({
    secret: { ...TEXT, example: 'whsec_…', description: 'Shown only here.' },
    oldSecretUntil: { ...TIME, description: 'Until then deliveries have both signatures.' },
  }),
);
export type RotatedSecret = Shown<typeof ROTATED_SECRET>;

export const PING_OUTCOME = named(
  'PingOutcome',
  object({
    delivered: FLAG,
    status: {
      ...nullable(INTEGER),
      description: 'Of the response; null: there was none, or a broker acknowledged.',
    },
    error: nullable(TEXT),
    durationMs: COUNT,
  }),
);
export type PingOutcome = Shown<typeof PING_OUTCOME>;
