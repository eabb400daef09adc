import * as s from '../http/schema.ts';
import { FANNED_OUT, RULING } from '../outbox/fan-out/deliveries.openapi.ts';
import { STATUSES } from './messages-store.ts';

const VIEW = {
  id: s.TEXT,
  source: s.TEXT,
  type: s.TEXT,
  key: s.TEXT,
  status: s.choice(STATUSES),
  attempt: { ...s.COUNT, description: 'The number of attempts so far.' },
  error: s.nullable(s.TEXT),
  headers: s.map(s.TEXT),
  occurredAt: s.nullable(s.TIME),
  receivedAt: s.TIME,
  dueAt: s.nullable(s.TIME),
  expiresAt: s.nullable(s.TIME),
  settledAt: s.nullable(s.TIME),
} as const;
const SOMETIMES = {
  archived: {
    ...s.FLAG,
    description: 'It is in history, which keeps no attempts and no `dueAt`, `expiresAt` and `settledAt`.',
  },
  supersededBy: { ...s.TEXT, description: 'The id of the message that replaced it.' },
  ruling: RULING,
  producer: s.object({ id: s.TEXT, sequence: s.COUNT }),
} as const;

export const MESSAGE_VIEW = s.named('Message', s.object(VIEW, SOMETIMES));
export type MessageView = s.Shown<typeof MESSAGE_VIEW>;

export const MESSAGE_DETAILS = s.named(
  'MessageDetails',
  s.object(
    { ...VIEW, ...FANNED_OUT, payloadBytes: s.COUNT },
    { ...SOMETIMES, payload: { ...s.ANY, description: 'As it was posted; absent with `payload=none`.' } },
  ),
);
export type MessageDetails = Pick<s.Shown<typeof MESSAGE_DETAILS>, keyof typeof FANNED_OUT>;
