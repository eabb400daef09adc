import { ApiParam } from '@nestjs/swagger';
import { NAME, NAME_FORM } from '../../http/names.ts';
import {
  ANY,
  choice,
  FLAG,
  list,
  named,
  nullable,
  object,
  type Shown,
  TEXT,
  TIME,
} from '../../http/schema.ts';
import { MAX_TYPE } from '../../inbox/fields.ts';
import { ON_MISSED } from './due-ticks.ts';

export const ApiSchedule = ApiParam({
  name: 'name',
  example: 'timetables',
  description: 'The name of the schedule.',
});
export const ApiNewSchedule = ApiParam({
  name: 'name',
  schema: { ...TEXT, pattern: NAME.source, example: 'timetables' },
  description: NAME_FORM,
});

/** Written by hand: no class can declare that the payload may be any JSON value. */
export const PUT_SCHEDULE = named('PutSchedule', {
  ...object(
    {
      cron: {
        ...TEXT,
        example: '*/10 * * * *',
        description: '5 fields, or 6 with seconds first; up to 256 characters.',
      },
      type: { ...TEXT, minLength: 1, maxLength: MAX_TYPE, example: 'urn:ekp:commands/check-timetables' },
      payload: {
        ...ANY,
        example: {},
        description: 'Any JSON value, up to 64 KiB; posted exactly as it is written here.',
      },
    },
    {
      timezone: { ...nullable(TEXT), example: 'Europe/Warsaw', description: 'Default: UTC.' },
      key: { ...nullable(TEXT), description: 'Absent or null: each message has its own key.' },
      onMissed: {
        ...nullable(choice(ON_MISSED)),
        description:
          'What to post for ticks that were missed because no replica ran for more than a minute. Default: `one`.',
      },
    },
  ),
  additionalProperties: false,
});

const FIELDS = {
  name: TEXT,
  cron: TEXT,
  timezone: TEXT,
  type: TEXT,
  key: { ...nullable(TEXT), description: 'Null: each message has its own key.' },
  onMissed: choice(ON_MISSED),
  paused: FLAG,
  nextAt: { ...nullable(TIME), description: 'Null while it is paused.' },
  nextTicks: { ...list(TIME), description: 'The next three; none while it is paused.' },
  lastAt: { ...nullable(TIME), description: 'Null before the first tick.' },
  createdAt: TIME,
  createdBy: TEXT,
  updatedAt: TIME,
  updatedBy: TEXT,
} as const;

export const SCHEDULE = named(
  'Schedule',
  object({ ...FIELDS, payload: { ...ANY, description: 'As it was sent.' } }),
);
export type ScheduleView = Pick<Shown<typeof SCHEDULE>, keyof typeof FIELDS>;
