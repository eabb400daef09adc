import { COUNT, choice, named, nullable, object, oneOf, type Shown, TEXT, TIME } from '../../http/schema.ts';
import { PENDING } from '../../outbox/fan-out/deliveries.openapi.ts';
import { STATUSES } from '../messages-store.ts';

const KIND = choice(['operator', 'retry', 'deferred', 'rate', 'dead-letter']);
const REASON = { ...TEXT, description: 'The text that the hold was set with, else its kind.' };
const UNTIL = { ...nullable(TIME), description: 'Null: without end.' };

export const HOLD = named(
  'Hold',
  object({ key: TEXT, kind: KIND, reason: REASON, until: UNTIL, since: TIME }),
);
export type HoldView = Shown<typeof HOLD>;

export const HELD_KEY = named('HeldKey', object({ key: TEXT, until: UNTIL, reason: TEXT }));
export type HeldKey = Shown<typeof HELD_KEY>;

const AHEAD = { ...COUNT, description: 'Messages of its lane before it.' };

const WAITS_FOR = oneOf(
  object({ kind: choice(['nothing']) }),
  object({ kind: choice(['time']), until: TIME }),
  object({
    kind: choice(['hold']),
    hold: KIND,
    reason: REASON,
    until: UNTIL,
    since: nullable(TIME),
    deadLetter: { ...nullable(TEXT), description: 'The id of the dead letter that the key waits behind.' },
  }),
  object({ kind: choice(['lease']), replica: nullable(TEXT), until: nullable(TIME), ahead: AHEAD }),
  object({ kind: choice(['turn']), ahead: AHEAD }),
);

const OF_INBOX = {
  id: TEXT,
  status: choice(STATUSES),
  waitsFor: WAITS_FOR,
  explanation: { ...TEXT, description: 'One sentence for a person, with the next step.' },
} as const;

/** What a message waits for, and what can be done about it. */
export const WHY = named('Why', object({ ...OF_INBOX, ...PENDING }));
export type WhyView = Shown<typeof WHY>;
export type Why = Pick<WhyView, keyof typeof OF_INBOX>;
