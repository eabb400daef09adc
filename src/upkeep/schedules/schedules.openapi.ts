import { ApiName, ApiNewName } from '../../http/names.ts';
import * as s from '../../http/schema.ts';
import { MAX_TYPE } from '../../inbox/fields.ts';
import { ON_MISSED } from './due-ticks.ts';

export const ApiSchedule = ApiName('name', 'schedule', 'timetables');
export const ApiNewSchedule = ApiNewName('name', 'timetables');

/** Written by hand: no class can declare that the payload may be any JSON value. */
export const PUT_SCHEDULE = s.named('PutSchedule', {
  ...s.object(
    {
      cron: {
        ...s.TEXT,
        example: '*/10 * * * *',
        description: '5 fields, or 6 with seconds first; up to 256 characters.',
      },
      type: { ...s.TEXT, minLength: 1, maxLength: MAX_TYPE, example: 'urn:ekp:commands/check-timetables' },
      payload: {
        ...s.ANY,
        example: {},
        description: 'Any JSON value, up to 64 KiB; posted exactly as it is written here.',
      },
    },
    {
      timezone: { ...s.nullable(s.TEXT), example: 'Europe/Warsaw', description: 'Default: UTC.' },
      key: { ...s.nullable(s.TEXT), description: 'Absent or null: each message has its own key.' },
      onMissed: {
        ...s.nullable(s.choice(ON_MISSED)),
        description:
          'What to post for ticks that were missed because no replica ran for more than a minute. Default: `one`.',
      },
    },
  ),
  additionalProperties: false,
});

const FIELDS = {
  name: s.TEXT,
  cron: s.TEXT,
  timezone: s.TEXT,
  type: s.TEXT,
  key: { ...s.nullable(s.TEXT), description: 'Null: each message has its own key.' },
  onMissed: s.choice(ON_MISSED),
  paused: s.FLAG,
  nextAt: { ...s.nullable(s.TIME), description: 'Null while it is paused.' },
  nextTicks: { ...s.list(s.TIME), description: 'The next three; none while it is paused.' },
  lastAt: { ...s.nullable(s.TIME), description: 'Null before the first tick.' },
  createdAt: s.TIME,
  createdBy: s.TEXT,
  updatedAt: s.TIME,
  updatedBy: s.TEXT,
} as const;

export const SCHEDULE = s.named(
  'Schedule',
  s.object({ ...FIELDS, payload: { ...s.ANY, description: 'As it was sent.' } }),
);
export type ScheduleView = Pick<s.Shown<typeof SCHEDULE>, keyof typeof FIELDS>;
