import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { ValidateNested } from 'class-validator';
import { parseDuration } from '../config/duration.ts';
import { aText, durationFrom, listOf, Must, wholeFrom } from '../http/definition-rules.ts';
import { Optional } from '../http/optional.ts';
import { invalidFields } from '../http/problems.ts';

const MAX_OFFSET = Number.MAX_SAFE_INTEGER;
const MAX_ITEMS = 500;
const MAX_MESSAGES = 5_000;
export const DEFAULT_MESSAGES = 500;
export const MAX_BYTES = 16 * 1024 * 1024;
export const DEFAULT_BYTES = 4 * 1024 * 1024;
/** Many proxies cut a request after 60 s. */
export const MAX_WAIT_MS = 50_000;
const MAX_REASON = 2_000;

class PlaceFields {
  @ApiProperty({ example: 'orders' })
  @Must(aText)
  topic: string;

  @ApiProperty({ type: 'integer', minimum: 0, maximum: 255, example: 3 })
  @Must(wholeFrom(0, 255))
  partition: number;

  @ApiProperty({ type: 'integer', minimum: 0, example: 17, description: 'As it was assigned.' })
  @Must(wholeFrom(0, MAX_OFFSET))
  fence: number;
}

class Rejection {
  @ApiProperty({ type: 'integer', minimum: 0, example: 41 })
  @Must(wholeFrom(0, MAX_OFFSET))
  offset: number;

  @ApiProperty({ minLength: 1, maxLength: MAX_REASON, example: 'no such customer' })
  @Must(aReason)
  reason: string;
}

export class CommitItem extends PlaceFields {
  @ApiProperty({
    type: 'integer',
    minimum: 0,
    example: 42,
    description: 'The last one that was processed. (In Kafka it is the next one.)',
  })
  @Must(wholeFrom(0, MAX_OFFSET))
  offset: number;

  @ApiPropertyOptional({
    type: () => [Rejection],
    maxItems: MAX_ITEMS,
    description: 'Up to `offset`: these become dead letters of the group.',
  })
  @Optional()
  @Must(listOf(0, MAX_ITEMS))
  @ValidateNested({ each: true })
  @Type(() => Rejection)
  rejected?: Rejection[];
}

class NextItem extends PlaceFields {
  @ApiProperty({
    type: 'integer',
    minimum: 0,
    example: 43,
    description: 'The offset that the member expects next.',
  })
  @Must(wholeFrom(0, MAX_OFFSET))
  next: number;
}

class MemberField {
  @ApiProperty({ description: 'As the join returned it.' })
  @Must(aText)
  member: string;
}

export class PollRequest extends MemberField {
  @ApiPropertyOptional({
    type: 'integer',
    minimum: 0,
    maximum: MAX_MESSAGES,
    default: DEFAULT_MESSAGES,
    description: 'Max messages; 0 is a heartbeat.',
  })
  @Optional()
  @Must(wholeFrom(0, MAX_MESSAGES))
  max?: number;

  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: MAX_BYTES,
    default: DEFAULT_BYTES,
    description: 'Max bytes of payloads; one message may be larger.',
  })
  @Optional()
  @Must(wholeFrom(1, MAX_BYTES))
  maxBytes?: number;

  @ApiPropertyOptional({
    default: '0s',
    example: '20s',
    description: 'How long to wait for messages, at most 50s.',
  })
  @Optional()
  @Must(durationFrom(0, MAX_WAIT_MS))
  wait?: string;

  @ApiPropertyOptional({
    type: () => [NextItem],
    maxItems: MAX_ITEMS,
    description: 'What was handed out from there on never arrived, and is handed out again.',
  })
  @Optional()
  @Must(listOf(0, MAX_ITEMS))
  @ValidateNested({ each: true })
  @Type(() => NextItem)
  next?: NextItem[];

  @ApiPropertyOptional({ type: () => [CommitItem], maxItems: MAX_ITEMS, description: 'As in a commit.' })
  @Optional()
  @Must(listOf(0, MAX_ITEMS))
  @ValidateNested({ each: true })
  @Type(() => CommitItem)
  commit?: CommitItem[];
}

export class CommitRequest extends MemberField {
  @ApiProperty({ type: () => [CommitItem], minItems: 1, maxItems: MAX_ITEMS })
  @Must(listOf(1, MAX_ITEMS))
  @ValidateNested({ each: true })
  @Type(() => CommitItem)
  offsets: CommitItem[];
}

export function waitOf({ wait }: PollRequest): number {
  return wait === undefined ? 0 : parseDuration(wait)!;
}

/** Throws a 422 for what the single fields do not show. */
export function checkItems(items: readonly CommitItem[], pointer: string): void {
  const seen = new Set<string>();
  const errors = items.flatMap(({ topic, partition, fence, offset, rejected = [] }, index) => {
    const named = JSON.stringify([topic, partition, fence]);
    const twice = seen.has(named);
    seen.add(named);
    const beyond = rejected.findIndex((one) => one.offset > offset);
    return [
      ...(twice ? [{ pointer: `${pointer}/${index}`, detail: 'is the same partition as one before' }] : []),
      ...(beyond < 0
        ? []
        : [
            {
              pointer: `${pointer}/${index}/rejected/${beyond}/offset`,
              detail: `must not be above the committed offset ${offset}`,
            },
          ]),
    ];
  });
  if (errors.length) throw invalidFields(errors);
}

function aReason(value: unknown): string | undefined {
  if (typeof value !== 'string' || value === '') return 'must be a text';
  if (value.length > MAX_REASON) return `must not be longer than ${MAX_REASON} characters`;
  return value.includes('\u0000') ? 'must not contain NUL' : undefined;
}
