import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional, ApiQuery, ApiResponse } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { IsBoolean, IsDefined, IsObject, IsString, Length, ValidateNested } from 'class-validator';
import { Nullable, Optional } from '../../http/optional.ts';
import { TIME } from '../../http/schema.ts';
import { DeadLetterFilter, STAGES } from './dead-letter-filter.ts';
import { ApiDeadLetter, DRY_RUN, STARTED_ACTION } from './dead-letters.openapi.ts';

export const MAX_REASON = 500;

export class Reason {
  @ApiPropertyOptional({
    type: String,
    nullable: true,
    minLength: 1,
    maxLength: MAX_REASON,
    example: 'the vacancy was closed by hand',
  })
  @Nullable()
  @IsString()
  @Length(1, MAX_REASON)
  reason?: string;
}

export class ActOnMany extends Reason {
  @ApiProperty({ type: () => DeadLetterFilter, description: 'Selects the dead letters; `{}` means all.' })
  @IsDefined()
  @IsObject()
  @ValidateNested()
  @Type(() => DeadLetterFilter)
  filter: DeadLetterFilter;

  @ApiPropertyOptional({ description: 'Only count the matching dead letters.', example: true })
  @Optional()
  @IsBoolean()
  dryRun?: boolean;
}

/** Documents the query parameters of a DeadLetterFilter. */
export function ApiFilter(): MethodDecorator {
  return applyDecorators(
    ApiQuery({ name: 'stage', required: false, enum: STAGES, description: 'Only of this stage.' }),
    ApiQuery({ name: 'listener', required: false, description: 'Deliveries to this listener.' }),
    ApiQuery({
      name: 'group',
      required: false,
      description: 'Messages that this consumer group rejected.',
    }),
    ApiQuery({ name: 'type', required: false, description: 'A type, or a pattern with `*`.' }),
    ApiQuery({ name: 'key', required: false, description: 'The key of the message.' }),
    ApiQuery({ name: 'error', required: false, description: 'A part of the error text, or a fingerprint.' }),
    ApiQuery({
      name: 'since',
      required: false,
      schema: TIME,
      description: 'Dead since this time or later (RFC 3339).',
    }),
  );
}

/** Documents the parameters that select a dead letter, and the problems if there is not exactly one. */
export function ApiWhich(): MethodDecorator {
  return applyDecorators(
    ApiDeadLetter,
    ApiQuery({
      name: 'stage',
      required: false,
      enum: STAGES,
      description: 'Needed if dead letters of several stages have the id.',
    }),
    ApiQuery({ name: 'source', required: false, description: 'Needed if several sources used the same id.' }),
    ApiResponse({ status: 404, description: 'No dead letter has this id.' }),
    ApiResponse({
      status: 409,
      description: 'It is no longer a dead letter, or several have this id; `detail` says which.',
    }),
  ) as MethodDecorator;
}

/** Documents the responses to an action on all dead letters of a filter. */
export function ApiStarted(): MethodDecorator {
  return applyDecorators(
    ApiResponse({
      status: 202,
      description: 'Started; GET `location` for the progress.',
      schema: STARTED_ACTION,
    }),
    ApiResponse({ status: 200, description: 'With `dryRun`: the number of matches.', schema: DRY_RUN }),
    ApiResponse({ status: 422, description: 'Not valid; `errors` points at each error.' }),
  ) as MethodDecorator;
}
