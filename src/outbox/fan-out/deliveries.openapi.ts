import { MESSAGE_IN_GROUP } from '../../groups/groups.openapi.ts';
import {
  COUNT,
  choice,
  INTEGER,
  list,
  named,
  nullable,
  object,
  type Shown,
  TEXT,
  TIME,
} from '../../http/schema.ts';

export const DELIVERY_STATUSES = ['pending', 'processing', 'held', 'finished', 'dead', 'discarded'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** What an operator decided about a dead letter. */
export const RULING = named(
  'Ruling',
  object({ kind: choice(['revive', 'discard']), by: TEXT, at: TIME, reason: nullable(TEXT) }),
);
export type Ruling = Shown<typeof RULING>;

export const ATTEMPT = named(
  'Attempt',
  object({
    at: TIME,
    attempt: { ...COUNT, description: 'Counts from 1.' },
    status: { ...nullable(INTEGER), description: 'Of the response; null: there was none.' },
    error: nullable(TEXT),
    durationMs: nullable(COUNT),
    excerpt: { ...nullable(TEXT), description: 'The start of the response body.' },
  }),
);
export type AttemptView = Shown<typeof ATTEMPT>;

const DELIVERY_FIELDS = {
  id: { ...TEXT, description: 'Also the `webhook-id`.' },
  listener: { ...nullable(TEXT), description: 'Null: it is no longer known.' },
  status: choice(DELIVERY_STATUSES),
  attempt: { ...COUNT, description: 'The number of attempts so far.' },
  sequence: { ...COUNT, description: 'Counts per listener and key from 1.' },
  error: nullable(TEXT),
  createdAt: TIME,
  settledAt: nullable(TIME),
} as const;
const RULED = { ruling: RULING } as const;

/** As part of its message. */
const MESSAGE_DELIVERY = named(
  'MessageDelivery',
  object(
    {
      ...DELIVERY_FIELDS,
      attempts: { ...list(ATTEMPT), description: 'The newest ones, in order.' },
      attemptsTotal: COUNT,
    },
    RULED,
  ),
);
export type MessageDelivery = Shown<typeof MESSAGE_DELIVERY>;

/** In the list of a listener. */
export const DELIVERY = named(
  'Delivery',
  object(
    {
      ...DELIVERY_FIELDS,
      message: { ...TEXT, description: 'The id of the message.' },
      type: TEXT,
      key: TEXT,
      answered: { ...nullable(INTEGER), description: 'The status of the last response.' },
    },
    RULED,
  ),
);
export type DeliveryView = Shown<typeof DELIVERY>;

/** What a delivery waits for, and what can be done about it. */
const PENDING_DELIVERY = named(
  'PendingDelivery',
  object({
    id: TEXT,
    listener: nullable(TEXT),
    status: choice(DELIVERY_STATUSES),
    waitsFor: choice([
      'deleted-listener',
      'paused-listener',
      'disabled-listener',
      'listener',
      'hold',
      'consumer',
      'key',
      'turn',
    ]),
    explanation: { ...TEXT, description: 'One sentence for a person, with the next step.' },
  }),
);
export type PendingDelivery = Shown<typeof PENDING_DELIVERY>;

/** Where a message went. */
export const FANNED_OUT = {
  deliveries: list(MESSAGE_DELIVERY),
  deliveriesTotal: COUNT,
  groups: list(MESSAGE_IN_GROUP),
} as const;

/** Where it still has to go. */
export const PENDING = {
  deliveries: { ...list(PENDING_DELIVERY), description: 'Those that are not settled.' },
  groups: list(MESSAGE_IN_GROUP),
} as const;
