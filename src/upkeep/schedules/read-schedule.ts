import { IsIn, IsString } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { readWithRawMember } from '../../http/body.ts';
import { Nullable } from '../../http/optional.ts';
import { invalidFields } from '../../http/problems.ts';
import { validated } from '../../http/valid-body.ts';
import { checkKey, checkName, Faults, MAX_TYPE } from '../../inbox/fields.ts';
import { Cron, type Parsed } from './cron.ts';
import { cronFault } from './cron-fields.ts';
import { ON_MISSED, type OnMissed } from './due-ticks.ts';
import type { ScheduleDefinition } from './schedule-store.ts';

/** Up to a thousand missed ticks are posted at a time, each with a copy of the payload. */
const MAX_PAYLOAD_BYTES = 65_536;
/** Twice the length of the longest name in the time zone database. */
const MAX_ZONE_LENGTH = 64;

/** As PUT_SCHEDULE describes it; the payload is read apart from it. */
class PutSchedule {
  @IsString()
  cron: string;

  @Nullable()
  @IsString()
  timezone?: string;

  @IsString()
  type: string;

  @Nullable()
  @IsString()
  key?: string;

  @Nullable()
  @IsIn(ON_MISSED)
  onMissed?: OnMissed;
}

export interface PostedSchedule {
  readonly definition: Omit<ScheduleDefinition, 'name'>;
  readonly cron: Cron;
}

/** The schedule in the request, or a 422 with every error. The payload stays text. */
export async function readSchedule(request: FastifyRequest): Promise<PostedSchedule> {
  const { rest, raw: payload } = readWithRawMember(request, 'payload');
  const fields = await validated(PutSchedule, rest);
  const faults = new Faults();
  if (payload === undefined) faults.add('/payload', 'is required');
  else if (Buffer.byteLength(payload) > MAX_PAYLOAD_BYTES)
    faults.add('/payload', `must not be larger than ${MAX_PAYLOAD_BYTES} bytes`);
  const type = checkName(fields.type, MAX_TYPE, '/type', faults);
  const key = fields.key === undefined ? null : checkKey(fields.key, '/key', faults);
  const timezone = fields.timezone ?? 'UTC';
  const parsed = parse(fields.cron, timezone);
  if (parsed.kind === 'faulty') faults.add(parsed.pointer, parsed.detail);
  if (parsed.kind === 'faulty' || faults.list.length > 0) throw invalidFields(faults.list);
  return {
    definition: {
      cron: fields.cron.trim(),
      timezone,
      type: type!,
      payload: payload!,
      key: key!,
      on_missed: fields.onMissed ?? 'one',
    },
    cron: parsed.cron,
  };
}

/** Stricter than the reading of stored schedules: one that was stored before these rules continues. */
function parse(cron: string, timezone: string): Parsed {
  const detail = cronFault(cron);
  if (detail !== undefined) return { kind: 'faulty', pointer: '/cron', detail };
  if (timezone.length > MAX_ZONE_LENGTH)
    return {
      kind: 'faulty',
      pointer: '/timezone',
      detail: `must not be longer than ${MAX_ZONE_LENGTH} characters`,
    };
  return Cron.parse(cron, timezone);
}
