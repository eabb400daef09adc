import { ApiParam } from '@nestjs/swagger';
import {
  ANY,
  COUNT,
  choice,
  FLAG,
  list,
  map,
  named,
  nullable,
  object,
  oneOf,
  type Shown,
  TEXT,
  TIME,
} from '../../http/schema.ts';
import { ATTEMPT } from '../../outbox/fan-out/deliveries.openapi.ts';
import { STAGES } from './dead-letter-filter.ts';

/** Rows behind a dead letter are counted up to this number. */
export const MAX_WAITING = 100;

export const ApiDeadLetter = ApiParam({
  name: 'id',
  description: 'The id of the message, of the delivery, or of the rejection.',
});

const STAGE = choice(STAGES);
const OF_STAGE = {
  listener: { ...TEXT, description: 'Only of the stage `outbox`.' },
  group: { ...TEXT, description: 'Only of the stage `group`.' },
} as const;
const ORIGIN = object({
  topic: { ...nullable(TEXT), description: 'Null: it was deleted.' },
  partition: COUNT,
  offset: COUNT,
});

const FIELDS = {
  id: { ...TEXT, description: 'Of the message, of the delivery, or of the rejection.' },
  stage: STAGE,
  message: { ...TEXT, description: 'The id of the message.' },
  source: TEXT,
  type: TEXT,
  key: TEXT,
  attempt: { ...COUNT, description: 'The number of attempts.' },
  error: nullable(TEXT),
  fingerprint: { ...nullable(TEXT), description: 'What it has in common with similar errors.' },
  occurredAt: nullable(TIME),
  receivedAt: TIME,
  diedAt: nullable(TIME),
  waiting: {
    ...COUNT,
    maximum: MAX_WAITING,
    description: `How many of its key wait behind it; counted up to ${MAX_WAITING}.`,
  },
} as const;
const SOMETIMES = {
  ...OF_STAGE,
  origin: { ...nullable(ORIGIN), description: 'Where a group read it. Only of the stage `group`.' },
} as const;

export const DEAD_LETTER = named('DeadLetter', object(FIELDS, SOMETIMES));
export type DeadLetterView = Shown<typeof DEAD_LETTER>;

const DETAILS = {
  headers: map(TEXT),
  attempts: { ...list(ATTEMPT), description: 'Of a delivery: the newest ones, in order.' },
  attemptsTotal: COUNT,
} as const;

export const DEAD_LETTER_DETAILS = named(
  'DeadLetterDetails',
  object({ ...FIELDS, ...DETAILS, payload: { ...ANY, description: 'As it was posted.' } }, SOMETIMES),
);
export type DeadLetterDetails = Pick<Shown<typeof DEAD_LETTER_DETAILS>, keyof typeof DETAILS>;

const DEAD_LETTER_GROUP = named(
  'DeadLetterGroup',
  object(
    {
      stage: STAGE,
      fingerprint: TEXT,
      count: COUNT,
      first: { ...TIME, description: 'When the first of them died.' },
      last: TIME,
      example: object({ id: TEXT, type: TEXT, key: TEXT, error: nullable(TEXT) }),
    },
    OF_STAGE,
  ),
);
export const DEAD_LETTER_GROUPS = named(
  'DeadLetterGroups',
  object({
    items: list(DEAD_LETTER_GROUP),
    next: { ...nullable(TEXT), description: 'Always null: there is one page.' },
  }),
);
export type DeadLetterGroups = Shown<typeof DEAD_LETTER_GROUPS>;

export const REVIVED = named(
  'RevivedDeadLetter',
  object({
    id: TEXT,
    stage: STAGE,
    status: { ...choice(['held', 'revived']), description: '`revived`: of the stage `group`.' },
  }),
);
export type RevivedDeadLetter = Shown<typeof REVIVED>;

export const DRY_RUN = named('DryRun', object({ matched: COUNT, dryRun: FLAG }));

export const STARTED_ACTION = named(
  'StartedAction',
  object({
    id: TEXT,
    matched: COUNT,
    location: { ...TEXT, description: 'The path that shows the progress.' },
  }),
);

const STARTED_OR_COUNTED = oneOf(STARTED_ACTION, DRY_RUN);
export type StartedOrCounted = Shown<typeof STARTED_OR_COUNTED>;

export const ACTION = named(
  'DeadLetterAction',
  object(
    {
      id: TEXT,
      kind: choice(['revive', 'discard']),
      status: choice(['running', 'finished', 'cancelled']),
      matched: COUNT,
      done: COUNT,
      skipped: { ...COUNT, description: 'No longer dead letters when the action reached them.' },
      remaining: COUNT,
      filter: object(
        {},
        {
          stage: STAGE,
          listener: TEXT,
          group: TEXT,
          type: TEXT,
          key: TEXT,
          error: TEXT,
          since: TIME,
        },
      ),
      reason: nullable(TEXT),
      createdAt: TIME,
      createdBy: TEXT,
    },
    {
      waiting: { ...COUNT, description: 'Revived and not settled yet. Only of a revive.' },
      ended: { ...COUNT, description: 'Revived and settled. Only of a revive.' },
      dead: { ...COUNT, description: 'Revived and dead again. Only of a revive.' },
      cancelledAt: TIME,
      cancelledBy: nullable(TEXT),
    },
  ),
);
export type ActionView = Shown<typeof ACTION>;
