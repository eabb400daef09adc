import { ApiName, ApiNewName } from '../http/names.ts';
import * as s from '../http/schema.ts';
import { LISTENER_MODES } from './listener-definition.ts';

export const ApiListener = ApiName('name', 'listener', 'billing');
export const ApiNewListener = ApiNewName('name', 'billing');

const RATE: s.Schema<number> = { type: 'number' };
const RATE_LIMIT = s.object(
  { perSecond: RATE, burst: s.COUNT },
  { perKey: { ...s.object({ perSecond: RATE }), description: 'For each key by itself.' } },
);

const ALWAYS = {
  name: s.TEXT,
  mode: s.choice(LISTENER_MODES),
  types: { ...s.list(s.TEXT), description: '`*` matches any characters.' },
  ordered: s.FLAG,
  retrySchedule: s.list(s.DURATION),
  onDead: s.choice(['skip', 'hold']),
  lanes: s.COUNT,
  rateLimit: s.nullable(RATE_LIMIT),
  state: s.choice(['active', 'paused', 'disabled']),
  stateReason: s.nullable(s.TEXT),
  stateSince: s.TIME,
  health: {
    ...s.object({
      circuit: {
        ...s.choice(['closed', 'open']),
        description: '`open`: calls failed, and only a probe is sent from time to time.',
      },
      closedUntil: { ...s.nullable(s.TIME), description: 'Nothing is sent until then.' },
      reason: s.nullable(s.TEXT),
      rate: s.object({
        perSecond: s.nullable(RATE),
        limitedUntil: { ...s.nullable(s.TIME), description: 'The rate limit is reached until then.' },
      }),
    }),
    description: 'What keeps deliveries from being sent at the moment.',
  },
  stateBy: {
    ...s.TEXT,
    description: 'The name of an API key, or of the part of the service that changed it.',
  },
  origin: { ...s.choice(['api', 'file']), description: '`file`: LISTENERS_FILE.' },
  createdAt: s.TIME,
  updatedAt: s.TIME,
} as const;

const OF_WEBHOOKS = {
  url: { ...s.TEXT, description: 'Only of a webhook. Without an admin key only its origin.' },
  timeout: { ...s.DURATION, description: 'Of a webhook or a broker.' },
  terminalStatuses: { ...s.list(s.INTEGER), description: 'Only of a webhook.' },
  format: { ...s.choice(['standard', 'cloudevents']), description: 'Only of a webhook.' },
  disableAfter: {
    ...s.nullable(s.object({ status: s.INTEGER, times: s.COUNT })),
    description: 'Only of a webhook.',
  },
  headers: {
    ...s.map(s.TEXT),
    description: 'Only of a webhook. Without an admin key the values are hidden.',
  },
} as const;

const OF_QUEUES = {
  lease: { ...s.DURATION, description: 'Only with the mode `pull`.' },
  attempts: { ...s.COUNT, description: 'Only with the mode `pull`.' },
  maxInFlight: { ...s.COUNT, description: 'Only with the mode `pull`.' },
} as const;

const TLS = s.object({}, { ca: s.TEXT, serverName: s.TEXT });
const OF_BROKERS = {
  nats: {
    ...s.object({ servers: s.list(s.TEXT), subject: s.TEXT }, { stream: s.TEXT, tls: TLS }),
    description: 'Only with the mode `nats`.',
  },
  rabbitmq: {
    ...s.object(
      { servers: s.list(s.TEXT) },
      { exchange: s.TEXT, routingKey: s.TEXT, vhost: s.TEXT, tls: TLS },
    ),
    description: 'Only with the mode `rabbitmq`.',
  },
  kafka: {
    ...s.object({ servers: s.list(s.TEXT), topic: s.TEXT }, { mechanism: s.TEXT, tls: TLS }),
    description: 'Only with the mode `kafka`.',
  },
  credentials: {
    ...s.map(s.TEXT),
    description: 'Only of a broker: which there are. Their values are never shown.',
  },
} as const;

export const LISTENER = s.named(
  'Listener',
  s.object(ALWAYS, { ...OF_WEBHOOKS, ...OF_QUEUES, ...OF_BROKERS }),
);
export type ListenerView = s.Shown<typeof LISTENER>;

export const PUT_LISTENER = s.named(
  'PutListener',
  s.object(ALWAYS, {
    ...OF_WEBHOOKS,
    ...OF_QUEUES,
    ...OF_BROKERS,
    secret: {
      ...s.TEXT,
      example: 'whsec_…',
      description: 'Signs the deliveries of a webhook. Shown only by the request that generated it.',
    },
  }),
);
export type PutListener = s.Shown<typeof PUT_LISTENER>;

export const ROTATED_SECRET = s.named(
  'RotatedSecret',
  s.object({
    secret: { ...s.TEXT, example: 'whsec_…', description: 'Shown only here.' },
    oldSecretUntil: { ...s.TIME, description: 'Until then deliveries have both signatures.' },
  }),
);
export type RotatedSecret = s.Shown<typeof ROTATED_SECRET>;

export const PING_OUTCOME = s.named(
  'PingOutcome',
  s.object({
    delivered: s.FLAG,
    status: {
      ...s.nullable(s.INTEGER),
      description: 'Of the response; null: there was none, or a broker acknowledged.',
    },
    error: s.nullable(s.TEXT),
    durationMs: s.COUNT,
  }),
);
export type PingOutcome = s.Shown<typeof PING_OUTCOME>;
