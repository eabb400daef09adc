import { ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn, IsString, Length } from 'class-validator';
import { Optional } from '../../http/optional.ts';
import { invalidFields } from '../../http/problems.ts';
import { timeOf } from '../../http/time.ts';

/** Messages of the inbox, deliveries to listeners, and messages that a consumer group rejected. */
export const STAGES = ['inbox', 'outbox', 'group'] as const;
export type Stage = (typeof STAGES)[number];

/** Selects dead letters; an empty filter selects all. The same in a query and in a body. */
export class DeadLetterFilter {
  @ApiPropertyOptional({ enum: STAGES })
  @Optional()
  @IsIn(STAGES)
  stage?: Stage;

  @ApiPropertyOptional({ minLength: 1, maxLength: 63, description: 'Deliveries to this listener.' })
  @Optional()
  @IsString()
  @Length(1, 63)
  listener?: string;

  @ApiPropertyOptional({
    minLength: 1,
    maxLength: 63,
    description: 'Messages that this consumer group rejected.',
  })
  @Optional()
  @IsString()
  @Length(1, 63)
  group?: string;

  @ApiPropertyOptional({
    minLength: 1,
    maxLength: 200,
    description: 'A type, or a pattern with `*`.',
    example: 'urn:ekp:events/*',
  })
  @Optional()
  @IsString()
  @Length(1, 200)
  type?: string;

  @ApiPropertyOptional({ minLength: 1, maxLength: 256, description: 'The key of the message.' })
  @Optional()
  @IsString()
  @Length(1, 256)
  key?: string;

  @ApiPropertyOptional({
    minLength: 1,
    maxLength: 1_000,
    description: 'A part of the error text, or a fingerprint.',
  })
  @Optional()
  @IsString()
  @Length(1, 1_000)
  error?: string;

  @ApiPropertyOptional({ format: 'date-time', description: 'Dead since this time or later.' })
  @Optional()
  @IsString()
  since?: string;
}

export const FILTER_NAMES = ['stage', 'listener', 'group', 'type', 'key', 'error', 'since'] as const;

/** Checks rules across fields and returns the filter without absent fields. `at` is the JSON pointer of the filter. */
export function checkedFilter(filter: DeadLetterFilter, at = ''): DeadLetterFilter {
  const { stage, listener, group, type, key, error, since } = filter;
  const errors = [
    ...otherStage(listener, stage, 'outbox').map((detail) => ({ pointer: `${at}/listener`, detail })),
    ...otherStage(group, stage ?? (listener && 'outbox'), 'group').map((detail) => ({
      pointer: `${at}/group`,
      detail,
    })),
  ];
  if (errors.length) throw invalidFields(errors);
  const time = since === undefined ? undefined : timeOf(since, `${at}/since`);
  return definedOf({ stage, listener, group, type, key, error, since: time });
}

/** Dead letters of one stage alone have a listener or a group. */
function otherStage(name: string | undefined, stage: string | undefined, only: Stage): string[] {
  return name === undefined || stage === undefined || stage === only
    ? []
    : [`applies to the stage ${only} only`];
}

function definedOf(filter: { [K in keyof DeadLetterFilter]: DeadLetterFilter[K] | undefined }) {
  return Object.fromEntries(
    Object.entries(filter).filter(([, value]) => value !== undefined),
  ) as DeadLetterFilter;
}
