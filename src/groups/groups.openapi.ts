import { ApiParam } from '@nestjs/swagger';
import { NAME, NAME_FORM } from '../http/names.ts';
import {
  COUNT,
  choice,
  DURATION,
  FLAG,
  INTEGER,
  list,
  named,
  nullable,
  object,
  oneOf,
  SECONDS,
  type Shown,
  TEXT,
  TIME,
} from '../http/schema.ts';
import { ENTRY_FIELDS } from '../topics/topics.openapi.ts';
import { MAX_GROUP_NAME } from './group.ts';

export const ApiGroup = ApiParam({
  name: 'group',
  example: 'billing',
  description: 'The name of the group.',
});
export const ApiNewGroup = ApiParam({
  name: 'group',
  schema: { ...TEXT, pattern: NAME.source, maxLength: MAX_GROUP_NAME, example: 'billing' },
  description: `${NAME_FORM}, at most ${MAX_GROUP_NAME} characters`,
});

const LAG = { ...COUNT, description: 'Messages that are not committed yet.' };
const LAG_SECONDS = {
  ...SECONDS,
  description: 'The age of the oldest message that the group has not committed.',
};

export const START = oneOf(choice(['earliest', 'latest']), object({ time: TIME }));

/** Where a seek goes. */
export const TARGET = oneOf(
  choice(['earliest', 'latest']),
  object({ time: TIME }),
  object({ offset: COUNT }),
);

const DEFINITION = {
  name: TEXT,
  topics: list(TEXT),
  start: { ...START, description: 'Where to start in a topic that the group has not read before.' },
  session: DURATION,
  maxInFlight: COUNT,
  attempts: COUNT,
  takeover: choice(['drain', 'skip']),
  onExpired: choice(['continue', 'stop']),
  origin: { ...choice(['api', 'file']), description: '`file`: LISTENERS_FILE.' },
  createdAt: TIME,
  updatedAt: TIME,
} as const;

export const GROUP_DEFINITION = named('Group', object(DEFINITION));
export type GroupView = Shown<typeof GROUP_DEFINITION>;

export const LISTED_GROUP = named(
  'GroupSummary',
  object({
    ...DEFINITION,
    lag: LAG,
    lagSeconds: LAG_SECONDS,
    members: { ...COUNT, description: 'Those that are alive.' },
  }),
);
export type ListedGroup = Shown<typeof LISTED_GROUP>;

const MEMBER = object({
  member: { ...TEXT, description: 'Its id.' },
  name: nullable(TEXT),
  joinedAt: TIME,
  seenAt: TIME,
  alive: { ...FLAG, description: 'False: it was silent for longer than the session.' },
  inFlight: { ...COUNT, description: 'Messages that it has and has not committed.' },
  partitions: { ...COUNT, description: 'How many it reads.' },
});
export type MemberView = Shown<typeof MEMBER>;

/** Offsets start at 0, so -1 means that nothing was committed. */
const COMMITTED = {
  ...INTEGER,
  minimum: -1,
  description: 'The last offset committed; one less than the first at the start.',
};

const PARTITION = object({
  topic: TEXT,
  partition: COUNT,
  committed: COMMITTED,
  handed: { ...INTEGER, minimum: -1, description: 'The last offset handed out.' },
  earliest: { ...COUNT, description: 'The first offset that is kept.' },
  next: { ...COUNT, description: 'The offset of the next message of the topic.' },
  lag: LAG,
  lagSeconds: LAG_SECONDS,
  expired: { ...COUNT, description: 'Messages that were removed before the group read them.' },
  fence: { ...COUNT, description: 'Grows with every hand-over.' },
  member: { ...nullable(TEXT), description: 'The id of the member that reads it.' },
  state: choice(['free', 'owned', 'draining', 'suspect']),
  why: { ...TEXT, description: 'One sentence for a person.' },
});
export type PartitionView = Shown<typeof PARTITION>;

const DETAILS = { lag: LAG, lagSeconds: LAG_SECONDS, members: list(MEMBER), partitions: list(PARTITION) };

export const GROUP = named('GroupDetails', object({ ...DEFINITION, ...DETAILS }));
export type GroupDetails = Pick<Shown<typeof GROUP>, keyof typeof DETAILS>;

const PLACE = {
  topic: TEXT,
  partition: COUNT,
  fence: { ...COUNT, description: 'To commit with.' },
} as const;

const ASSIGNED = object({
  ...PLACE,
  committed: COMMITTED,
  next: { ...COUNT, description: 'The next offset to read.' },
});
const ASSIGNMENT = [
  {
    assigned: { ...list(ASSIGNED), description: 'Partitions that the member reads.' },
    draining: {
      ...list(ASSIGNED),
      description: 'Partitions that go to another member when what was handed out is committed.',
    },
  },
  { why: { ...TEXT, description: 'Why no messages can come; one sentence for a person.' } },
] as const;

export const JOINED = named(
  'JoinedMember',
  object(
    {
      member: { ...TEXT, description: 'The id of the new member.' },
      session: { ...DURATION, description: 'How long the member may be silent.' },
      heartbeat: { ...DURATION, example: '10s', description: 'How often it should poll, at least.' },
      ...ASSIGNMENT[0],
    },
    ASSIGNMENT[1],
  ),
);
export type JoinedMember = Shown<typeof JOINED>;
export type AssignmentView = Pick<JoinedMember, 'assigned' | 'draining' | 'why'>;

const OUTCOME = object(
  { topic: TEXT, partition: COUNT, outcome: choice(['committed', 'behind', 'ahead', 'fenced']) },
  { committed: { ...COMMITTED, description: 'The offset that is stored now.' } },
);
export type OutcomeView = Shown<typeof OUTCOME>;

export const COMMITTED_OFFSETS = named(
  'CommittedOffsets',
  object({ offsets: { ...list(OUTCOME), description: 'In the order of the request.' } }),
);

const BATCH = object(
  {
    ...PLACE,
    from: COUNT,
    to: COUNT,
    count: COUNT,
    messages: list(
      named(
        'GroupMessage',
        object({ ...ENTRY_FIELDS, attempt: { ...COUNT, description: 'Counts from 1.' } }),
      ),
    ),
  },
  {
    skipped: {
      ...object({ from: COUNT, to: COUNT }),
      description: 'Offsets that were removed before the group read them.',
    },
  },
);

export const POLLED = named(
  'PolledBatches',
  object(
    {
      ...ASSIGNMENT[0],
      committed: { ...list(OUTCOME), description: 'An outcome for each item of `commit`.' },
      batches: list(BATCH),
    },
    ASSIGNMENT[1],
  ),
);

export const SOUGHT = named(
  'SoughtOffsets',
  object({
    dryRun: FLAG,
    again: { ...COUNT, description: 'Messages that are handed out again.' },
    skipped: { ...COUNT, description: 'Messages that are not handed out.' },
    partitions: list(
      object({
        topic: TEXT,
        partition: COUNT,
        from: { ...COUNT, description: 'The next offset before.' },
        to: { ...COUNT, description: 'The next offset from now on.' },
      }),
    ),
  }),
);
export type SoughtOffsets = Shown<typeof SOUGHT>;

/** The status of a message in a group. */
export const MESSAGE_IN_GROUP = named(
  'MessageInGroup',
  object({
    group: TEXT,
    topic: TEXT,
    partition: COUNT,
    offset: COUNT,
    status: choice(['pending', 'processing', 'processed', 'rejected', 'revived', 'discarded']),
    explanation: { ...TEXT, description: 'One sentence for a person.' },
  }),
);
export type MessageInGroup = Shown<typeof MESSAGE_IN_GROUP>;
