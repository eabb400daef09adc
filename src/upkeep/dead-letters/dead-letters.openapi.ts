import { ApiParam } from '@nestjs/swagger';
import * as s from '../../http/schema.ts';
import { ATTEMPT } from '../../outbox/fan-out/deliveries.openapi.ts';
import { STAGES } from './dead-letter-filter.ts';

/** Rows behind a dead letter are counted up to this number. */
export const MAX_WAITING = 100;

export const ApiDeadLetter = ApiParam({
  name: 'id',
  description: 'The id of the message, of the delivery, or of the rejection.',
});

const STAGE = s.choice(STAGES);
const OF_STAGE = {
  listener: { ...s.TEXT, description: 'Only of the stage `outbox`.' },
  group: { ...s.TEXT, description: 'Only of the stage `group`.' },
} as const;
const ORIGIN = s.object({
  topic: { ...s.nullable(s.TEXT), description: 'Null: it was deleted.' },
  partition: s.COUNT,
  offset: s.COUNT,
});

const FIELDS = {
  id: { ...s.TEXT, description: 'Of the message, of the delivery, or of the rejection.' },
  stage: STAGE,
  message: { ...s.TEXT, description: 'The id of the message.' },
  source: s.TEXT,
  type: s.TEXT,
  key: s.TEXT,
  attempt: { ...s.COUNT, description: 'The number of attempts.' },
  error: s.nullable(s.TEXT),
  fingerprint: { ...s.nullable(s.TEXT), description: 'What it has in common with similar errors.' },
  occurredAt: s.nullable(s.TIME),
  receivedAt: s.TIME,
  diedAt: s.nullable(s.TIME),
  waiting: {
    ...s.COUNT,
    maximum: MAX_WAITING,
    description: `How many of its key wait behind it; counted up to ${MAX_WAITING}.`,
  },
} as const;
const SOMETIMES = {
  ...OF_STAGE,
  origin: { ...s.nullable(ORIGIN), description: 'Where a group read it. Only of the stage `group`.' },
} as const;

export const DEAD_LETTER = s.named('DeadLetter', s.object(FIELDS, SOMETIMES));
export type DeadLetterView = s.Shown<typeof DEAD_LETTER>;

const DETAILS = {
  headers: s.map(s.TEXT),
  attempts: { ...s.list(ATTEMPT), description: 'Of a delivery: the newest ones, in order.' },
  attemptsTotal: s.COUNT,
} as const;

export const DEAD_LETTER_DETAILS = s.named(
  'DeadLetterDetails',
  s.object({ ...FIELDS, ...DETAILS, payload: { ...s.ANY, description: 'As it was posted.' } }, SOMETIMES),
);
export type DeadLetterDetails = Pick<s.Shown<typeof DEAD_LETTER_DETAILS>, keyof typeof DETAILS>;

const DEAD_LETTER_GROUP = s.named(
  'DeadLetterGroup',
  s.object(
    {
      stage: STAGE,
      fingerprint: s.TEXT,
      count: s.COUNT,
      first: { ...s.TIME, description: 'When the first of them died.' },
      last: s.TIME,
      example: s.object({ id: s.TEXT, type: s.TEXT, key: s.TEXT, error: s.nullable(s.TEXT) }),
    },
    OF_STAGE,
  ),
);
export const DEAD_LETTER_GROUPS = s.named(
  'DeadLetterGroups',
  s.object({
    items: s.list(DEAD_LETTER_GROUP),
    next: {
      ...s.nullable(s.TEXT),
      description: 'Always null: there is one page, of up to 1 MiB; a filter shows other groups.',
    },
  }),
);
export type DeadLetterGroups = s.Shown<typeof DEAD_LETTER_GROUPS>;

export const REVIVED = s.named(
  'RevivedDeadLetter',
  s.object({
    id: s.TEXT,
    stage: STAGE,
    status: { ...s.choice(['held', 'revived']), description: '`revived`: of the stage `group`.' },
  }),
);
export type RevivedDeadLetter = s.Shown<typeof REVIVED>;

export const DRY_RUN = s.named('DryRun', s.object({ matched: s.COUNT, dryRun: s.FLAG }));

export const STARTED_ACTION = s.named(
  'StartedAction',
  s.object({
    id: s.TEXT,
    matched: s.COUNT,
    location: { ...s.TEXT, description: 'The path that shows the progress.' },
  }),
);

const STARTED_OR_COUNTED = s.oneOf(STARTED_ACTION, DRY_RUN);
export type StartedOrCounted = s.Shown<typeof STARTED_OR_COUNTED>;

export const ACTION = s.named(
  'DeadLetterAction',
  s.object(
    {
      id: s.TEXT,
      kind: s.choice(['revive', 'discard']),
      status: s.choice(['running', 'finished', 'cancelled']),
      matched: s.COUNT,
      done: s.COUNT,
      skipped: { ...s.COUNT, description: 'No longer dead letters when the action reached them.' },
      remaining: s.COUNT,
      filter: s.object(
        {},
        {
          stage: STAGE,
          listener: s.TEXT,
          group: s.TEXT,
          type: s.TEXT,
          key: s.TEXT,
          error: s.TEXT,
          since: s.TIME,
        },
      ),
      reason: s.nullable(s.TEXT),
      createdAt: s.TIME,
      createdBy: s.TEXT,
    },
    {
      waiting: { ...s.COUNT, description: 'Revived and not settled yet. Only of a revive.' },
      ended: { ...s.COUNT, description: 'Revived and settled. Only of a revive.' },
      dead: { ...s.COUNT, description: 'Revived and dead again. Only of a revive.' },
      cancelledAt: s.TIME,
      cancelledBy: s.nullable(s.TEXT),
    },
  ),
);
export type ActionView = s.Shown<typeof ACTION>;
