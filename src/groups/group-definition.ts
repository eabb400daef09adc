import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import { formatDuration, parseDuration } from '../config/duration.ts';
import { durationFrom, listOf, Must, wholeFrom } from '../http/definition-rules.ts';
import { isName, NAME_FORM } from '../http/names.ts';
import { Optional } from '../http/optional.ts';
import { invalidFields, Problem } from '../http/problems.ts';
import { TIME_RULE, utcOf } from '../http/time.ts';
import { validated } from '../http/valid-body.ts';
import { type GroupRow, MAX_GROUP_NAME, type Start } from './group.ts';
import { type GroupView, START } from './groups.openapi.ts';
import type { GroupContent } from './groups-store.ts';

const MAX_TOPICS = 50;
const MAX_SESSION_MS = 30 * 60_000;

/** The body of a PUT, or an entry of the file. */
export class GroupDefinition {
  @ApiProperty({
    type: [String],
    minItems: 1,
    maxItems: MAX_TOPICS,
    example: ['orders'],
    description: 'Topics that exist.',
  })
  @Must(listOf(1, MAX_TOPICS))
  topics: string[];

  @ApiPropertyOptional({
    oneOf: START.oneOf!,
    default: 'earliest',
    description: 'Where to start in a topic that the group has not read before.',
  })
  @Optional()
  @Must(aStart)
  start?: Start;

  @ApiPropertyOptional({
    default: '30s',
    description: 'How long a member may be silent before its partitions go to others; 1s to 30m.',
  })
  @Optional()
  @Must(durationFrom(1_000, MAX_SESSION_MS))
  session?: string;

  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: 100_000,
    default: 1_000,
    description: 'Max messages that one member has and has not committed.',
  })
  @Optional()
  @Must(wholeFrom(1, 100_000))
  maxInFlight?: number;

  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: 100,
    default: 5,
    description: 'A message becomes a dead letter when this number of members died with it.',
  })
  @Optional()
  @Must(wholeFrom(1, 100))
  attempts?: number;

  @ApiPropertyOptional({
    enum: ['drain', 'skip'],
    default: 'drain',
    description:
      'When a partition moves from a live member to another: `drain` waits until everything handed out is committed; `skip` hands out what comes after it at once, which breaks the order.',
  })
  @Optional()
  @IsIn(['drain', 'skip'], { message: 'must be "drain" or "skip"' })
  takeover?: 'drain' | 'skip';

  @ApiPropertyOptional({
    enum: ['continue', 'stop'],
    default: 'continue',
    description:
      'When messages were removed by retention before the group read them: `continue` reports them as `skipped`; `stop` refuses polls (410) until an admin seeks.',
  })
  @Optional()
  @IsIn(['continue', 'stop'], { message: 'must be "continue" or "stop"' })
  onExpired?: 'continue' | 'stop';
}

/** Throws a 422. */
export async function checkGroup(name: string, body: unknown): Promise<GroupDefinition> {
  const fault = groupNameFault(name);
  if (fault) throw new Problem('invalid', `The name ${fault}.`);
  return checkGroupBody(body);
}

/** Why a group cannot be created with this name, as the rest of a sentence. */
export function groupNameFault(name: unknown): string | undefined {
  if (isName(name) && name.length <= MAX_GROUP_NAME) return undefined;
  return `must be ${NAME_FORM}, and at most ${MAX_GROUP_NAME} characters long`;
}

/** Throws a 422 that lists every error. */
export async function checkGroupBody(body: unknown): Promise<GroupDefinition> {
  const definition = await validated(GroupDefinition, body);
  const errors = definition.topics.flatMap((topic, index) => {
    const pointer = `/topics/${index}`;
    if (!isName(topic)) return [{ pointer, detail: `must be the name of a topic: ${NAME_FORM}` }];
    const first = definition.topics.indexOf(topic);
    return first < index ? [{ pointer, detail: `is the same as number ${first}` }] : [];
  });
  if (errors.length) throw invalidFields(errors);
  return definition;
}

export function contentOf(
  name: string,
  definition: GroupDefinition,
  origin: GroupRow['origin'],
): GroupContent {
  const { topics, start = 'earliest', session = '30s', maxInFlight = 1_000, attempts = 5 } = definition;
  return {
    name,
    definition: { start: typeof start === 'string' ? start : { time: utcOf(start.time)! } },
    topics,
    session_ms: parseDuration(session)!,
    max_in_flight: maxInFlight,
    attempts,
    takeover: definition.takeover ?? 'drain',
    on_expired: definition.onExpired ?? 'continue',
    origin,
  };
}

/** A definition with all defaults, as the API shows it. */
export function definitionView(row: GroupRow): GroupView {
  return {
    name: row.name,
    topics: row.topics,
    start: row.definition.start,
    session: formatDuration(row.session_ms),
    maxInFlight: row.max_in_flight,
    attempts: row.attempts,
    takeover: row.takeover,
    onExpired: row.on_expired,
    origin: row.origin,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export function aStart(value: unknown): string | undefined {
  if (value === 'earliest' || value === 'latest') return undefined;
  const isTime = typeof value === 'object' && value !== null && Object.keys(value).join() === 'time';
  if (!isTime) return 'must be "earliest", "latest" or {"time": …}';
  const { time } = value as { time: unknown };
  return typeof time === 'string' && utcOf(time) ? undefined : `has a time that ${TIME_RULE}`;
}
