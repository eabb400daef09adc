import {
  ANY,
  COUNT,
  choice,
  FLAG,
  map,
  named,
  nullable,
  object,
  type Shown,
  TEXT,
  TIME,
} from '../http/schema.ts';
import { FANNED_OUT, RULING } from '../outbox/fan-out/deliveries.openapi.ts';
import { STATUSES } from './messages-store.ts';

const VIEW = {
  id: TEXT,
  source: TEXT,
  type: TEXT,
  key: TEXT,
  status: choice(STATUSES),
  attempt: { ...COUNT, description: 'The number of attempts so far.' },
  error: nullable(TEXT),
  headers: map(TEXT),
  occurredAt: nullable(TIME),
  receivedAt: TIME,
  dueAt: nullable(TIME),
  expiresAt: nullable(TIME),
  settledAt: nullable(TIME),
} as const;
const SOMETIMES = {
  archived: {
    ...FLAG,
    description: 'It is in history, which keeps no attempts and no `dueAt`, `expiresAt` and `settledAt`.',
  },
  supersededBy: { ...TEXT, description: 'The id of the message that replaced it.' },
  ruling: RULING,
  producer: object({ id: TEXT, sequence: COUNT }),
} as const;

export const MESSAGE_VIEW = named('Message', object(VIEW, SOMETIMES));
export type MessageView = Shown<typeof MESSAGE_VIEW>;

export const MESSAGE_DETAILS = named(
  'MessageDetails',
  object(
    { ...VIEW, ...FANNED_OUT, payloadBytes: COUNT },
    { ...SOMETIMES, payload: { ...ANY, description: 'As it was posted; absent with `payload=none`.' } },
  ),
);
export type MessageDetails = Pick<Shown<typeof MESSAGE_DETAILS>, keyof typeof FANNED_OUT>;
