import { ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn, IsString, Length } from 'class-validator';
import { Optional } from '../../http/optional.ts';
import { invalidFields } from '../../http/problems.ts';
import { timeOf } from '../../http/time.ts';

export const STAGES = ['inbox', 'outbox'] as const;
export type Stage = (typeof STAGES)[number];

/** Selects dead letters; an empty filter selects all. The same in a query and in a body. */
export class DeadLetterFilter {
  @ApiPropertyOptional({ enum: STAGES })
  @Optional()
  @IsIn(STAGES)
  stage?: Stage;

  @ApiPropertyOptional({ description: 'Deliveries to this listener.' })
  @Optional()
  @IsString()
  @Length(1, 63)
  listener?: string;

  @ApiPropertyOptional({ description: 'A type, or a pattern with `*`.', example: 'urn:ekp:events/*' })
  @Optional()
  @IsString()
  @Length(1, 200)
  type?: string;

  @ApiPropertyOptional({ description: 'The key of the message.' })
  @Optional()
  @IsString()
  @Length(1, 256)
  key?: string;

  @ApiPropertyOptional({ description: 'A part of the error text, or a fingerprint.' })
  @Optional()
  @IsString()
  @Length(1, 1_000)
  error?: string;

  @ApiPropertyOptional({ format: 'date-time', description: 'Dead since this time or later.' })
  @Optional()
  @IsString()
  since?: string;
}

export const FILTER_NAMES = ['stage', 'listener', 'type', 'key', 'error', 'since'] as const;

/** Checks rules across fields and returns the filter without absent fields. `at` is the JSON pointer of the filter. */
export function checkedFilter(filter: DeadLetterFilter, at = ''): DeadLetterFilter {
  const { stage, listener, type, key, error, since } = filter;
  if (listener !== undefined && stage === 'inbox') {
    const detail = 'applies to the stage outbox only: messages of the inbox have no listener';
    throw invalidFields([{ pointer: `${at}/listener`, detail }]);
  }
  const time = since === undefined ? undefined : timeOf(since, `${at}/since`);
  return definedOf({ stage, listener, type, key, error, since: time });
}

function definedOf(filter: { [K in keyof DeadLetterFilter]: DeadLetterFilter[K] | undefined }) {
  return Object.fromEntries(
    Object.entries(filter).filter(([, value]) => value !== undefined),
  ) as DeadLetterFilter;
}
