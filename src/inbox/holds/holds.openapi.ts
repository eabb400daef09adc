import * as s from '../../http/schema.ts';
import type { HoldReason } from '../../lanes/lane-queue-types.ts';
import { PENDING } from '../../outbox/fan-out/deliveries.openapi.ts';
import { STATUSES } from '../messages-store.ts';

export const HOLD_KINDS: readonly HoldReason[] = ['operator', 'retry', 'deferred', 'rate', 'dead-letter'];
const KIND = s.choice(HOLD_KINDS);
const REASON = { ...s.TEXT, description: 'The text that the hold was set with, else its kind.' };
const UNTIL = { ...s.nullable(s.TIME), description: 'Null: indefinitely.' };

export const HOLD = s.named(
  'Hold',
  s.object({ key: s.TEXT, kind: KIND, reason: REASON, until: UNTIL, since: s.TIME }),
);
export type HoldView = s.Shown<typeof HOLD>;

export const HELD_KEY = s.named('HeldKey', s.object({ key: s.TEXT, until: UNTIL, reason: s.TEXT }));
export type HeldKey = s.Shown<typeof HELD_KEY>;

const AHEAD = { ...s.COUNT, description: 'Messages of its lane before it.' };

const WAITS_FOR = s.oneOf(
  s.object({ kind: s.choice(['nothing']) }),
  s.object({ kind: s.choice(['time']), until: s.TIME }),
  s.object({
    kind: s.choice(['hold']),
    hold: KIND,
    reason: REASON,
    until: UNTIL,
    since: s.nullable(s.TIME),
    deadLetter: {
      ...s.nullable(s.TEXT),
      description: 'The id of the dead letter that the key waits behind.',
    },
  }),
  s.object({
    kind: s.choice(['lease']),
    replica: s.nullable(s.TEXT),
    until: s.nullable(s.TIME),
    ahead: AHEAD,
  }),
  s.object({ kind: s.choice(['turn']), ahead: AHEAD }),
);

const OF_INBOX = {
  id: s.TEXT,
  status: s.choice(STATUSES),
  waitsFor: WAITS_FOR,
  explanation: { ...s.TEXT, description: 'One sentence for a person, with the next step.' },
} as const;

/** What a message waits for, and what can be done about it. */
export const WHY = s.named('Why', s.object({ ...OF_INBOX, ...PENDING }));
export type WhyView = s.Shown<typeof WHY>;
export type Why = Pick<WhyView, keyof typeof OF_INBOX>;
