import { MESSAGE_IN_GROUP } from '../../groups/groups.openapi.ts';
import * as s from '../../http/schema.ts';

export const DELIVERY_STATUSES = ['pending', 'processing', 'held', 'finished', 'dead', 'discarded'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** What an operator decided about a dead letter. */
export const RULING = s.named(
  'Ruling',
  s.object({ kind: s.choice(['revive', 'discard']), by: s.TEXT, at: s.TIME, reason: s.nullable(s.TEXT) }),
);
export type Ruling = s.Shown<typeof RULING>;

export const ATTEMPT = s.named(
  'Attempt',
  s.object({
    at: s.TIME,
    attempt: { ...s.COUNT, description: 'Counts from 1.' },
    status: { ...s.nullable(s.INTEGER), description: 'Of the response; null: there was none.' },
    error: s.nullable(s.TEXT),
    durationMs: s.nullable(s.COUNT),
    excerpt: { ...s.nullable(s.TEXT), description: 'The start of the response body.' },
  }),
);
export type AttemptView = s.Shown<typeof ATTEMPT>;

const DELIVERY_FIELDS = {
  id: { ...s.TEXT, description: 'Also the `webhook-id`.' },
  listener: { ...s.nullable(s.TEXT), description: 'Null: it is no longer known.' },
  status: s.choice(DELIVERY_STATUSES),
  attempt: { ...s.COUNT, description: 'The number of attempts so far.' },
  sequence: { ...s.COUNT, description: 'Counts per listener and key from 1.' },
  error: s.nullable(s.TEXT),
  createdAt: s.TIME,
  settledAt: s.nullable(s.TIME),
} as const;
const RULED = { ruling: RULING } as const;

/** As part of its message. */
const MESSAGE_DELIVERY = s.named(
  'MessageDelivery',
  s.object(
    {
      ...DELIVERY_FIELDS,
      attempts: { ...s.list(ATTEMPT), description: 'The newest ones, in order.' },
      attemptsTotal: s.COUNT,
    },
    RULED,
  ),
);
export type MessageDelivery = s.Shown<typeof MESSAGE_DELIVERY>;

/** In the list of a listener. */
export const DELIVERY = s.named(
  'Delivery',
  s.object(
    {
      ...DELIVERY_FIELDS,
      message: { ...s.TEXT, description: 'The id of the message.' },
      type: s.TEXT,
      key: s.TEXT,
      responseStatus: { ...s.nullable(s.INTEGER), description: 'The status of the last response.' },
    },
    RULED,
  ),
);
export type DeliveryView = s.Shown<typeof DELIVERY>;

/** What a delivery waits for, and what can be done about it. */
const PENDING_DELIVERY = s.named(
  'PendingDelivery',
  s.object({
    id: s.TEXT,
    listener: s.nullable(s.TEXT),
    status: s.choice(DELIVERY_STATUSES),
    waitsFor: s.choice([
      'deleted-listener',
      'paused-listener',
      'disabled-listener',
      'listener',
      'hold',
      'consumer',
      'key',
      'turn',
    ]),
    explanation: { ...s.TEXT, description: 'One sentence for a person, with the next step.' },
  }),
);
export type PendingDelivery = s.Shown<typeof PENDING_DELIVERY>;

/** Where a message went. */
export const FANNED_OUT = {
  deliveries: s.list(MESSAGE_DELIVERY),
  deliveriesTotal: s.COUNT,
  groups: s.list(MESSAGE_IN_GROUP),
} as const;

/** Where it still has to go. */
export const PENDING = {
  deliveries: { ...s.list(PENDING_DELIVERY), description: 'Those that are not settled.' },
  groups: s.list(MESSAGE_IN_GROUP),
} as const;
