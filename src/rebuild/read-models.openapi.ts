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
  SECONDS,
  type Shown,
  TEXT,
  TIME,
} from '../http/schema.ts';
import { STATUSES } from './rebuild.ts';

export const ApiReadModel = ApiParam({
  name: 'name',
  example: 'recruitment',
  description: 'The name of the read model.',
});

/** Its values by the names of its columns. */
const ROW = nullable(map(ANY));

export const DIFF = named(
  'ReadModelDiff',
  object({
    tables: list(object({ table: TEXT, onlyOld: COUNT, onlyNew: COUNT, different: COUNT })),
    rows: {
      ...list(
        object({
          table: TEXT,
          kind: choice(['only-old', 'only-new', 'different']),
          old: { ...ROW, description: 'The row of the living table; null if there is none.' },
          new: { ...ROW, description: 'The row of the rebuilt table; null if there is none.' },
        }),
      ),
      description: 'The first 100 rows that differ. Long values are cut.',
    },
  }),
);

export const REBUILD = named(
  'Rebuild',
  object(
    {
      id: TEXT,
      model: TEXT,
      status: choice(STATUSES),
      paused: FLAG,
      schema: {
        ...TEXT,
        description: 'The schema that is not the living one: the next, after the switch the previous.',
      },
      options: object({ dryRun: FLAG, recordFailures: FLAG, acceptFailures: FLAG, partial: FLAG }),
      total: { ...COUNT, description: 'Messages there were when the replay began.' },
      done: COUNT,
      leftOut: { ...COUNT, description: 'Messages that failed and were left out.' },
      leftOutMessages: {
        ...list(
          object({
            id: TEXT,
            source: TEXT,
            error: TEXT,
            reason: { ...nullable(TEXT), description: 'Of the operator; null: failures were recorded.' },
            by: TEXT,
            at: TIME,
          }),
        ),
        description: 'The first 100 of them.',
      },
      createdAt: TIME,
      createdBy: TEXT,
    },
    {
      perSecond: {
        ...SECONDS,
        description: 'Messages per second in the last minute of the replay, without pauses.',
      },
      secondsLeft: { ...SECONDS, description: 'At this rate, without what comes in meanwhile.' },
      waitsFor: { ...TEXT, description: 'Why it does not continue, or did not switch.' },
      failure: object({ error: TEXT }, { id: TEXT, source: TEXT, type: TEXT, key: TEXT }),
      diff: DIFF,
      switchedAt: TIME,
      pauseMs: { ...COUNT, description: 'How long no message was applied while it switched.' },
      endedAt: TIME,
    },
  ),
);
export type RebuildView = Shown<typeof REBUILD>;

export const READ_MODEL = named(
  'ReadModel',
  object({
    name: { ...TEXT, description: 'Also the PostgreSQL schema of its tables.' },
    types: { ...list(TEXT), description: 'The message types that its denormalizers handle.' },
    version: { ...TEXT, description: 'Of the code of its denormalizers at the replica that responds.' },
    rebuild: { ...nullable(REBUILD), description: 'The latest one.' },
  }),
);
export type ReadModelView = Shown<typeof READ_MODEL>;
