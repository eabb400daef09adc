import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { IsBoolean, IsIn, ValidateNested } from 'class-validator';
import { Optional } from '../http/optional.ts';
import { anObject, aText, durationFrom, listOf, Must, numberFrom, wholeFrom } from './definition-rules.ts';
import { MAX_LISTENER_LANES } from './listener.ts';

export const MAX_TYPES = 50;
export const MAX_RETRIES = 50;
export const MAX_STATUSES = 50;
export const MAX_HEADERS = 50;
export const MAX_TIMEOUT_MS = 60_000;

/** The schedule that Standard Webhooks recommends; 75 hours in all. */
export const RETRY_SCHEDULE = ['5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h'];

class PerKeyRate {
  @ApiProperty({ minimum: 0.01, maximum: 10_000, example: 1 })
  @Must(numberFrom(0.01, 10_000))
  perSecond: number;
}

class RateLimit {
  @ApiPropertyOptional({
    minimum: 0.01,
    maximum: 10_000,
    example: 30,
    description: 'Default: no limit but per key.',
  })
  @Optional()
  @Must(numberFrom(0.01, 10_000))
  perSecond?: number;

  @ApiPropertyOptional({
    minimum: 1,
    maximum: 100_000,
    example: 60,
    description: 'Default: one second of the rate.',
  })
  @Optional()
  @Must(wholeFrom(1, 100_000))
  burst?: number;

  @ApiPropertyOptional({ description: 'For each key by itself.' })
  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => PerKeyRate)
  perKey?: PerKeyRate;
}

class DisableAfter {
  @ApiProperty({ minimum: 300, maximum: 599, example: 403 })
  @Must(wholeFrom(300, 599))
  status: number;

  @ApiProperty({ minimum: 1, maximum: 10_000, example: 10 })
  @Must(wholeFrom(1, 10_000))
  times: number;
}

/** The body of a PUT, or an entry of LISTENERS_FILE; stored as given. Elements of lists are checked by `elementFaults`. */
export class ListenerDefinition {
  @ApiPropertyOptional({ enum: ['webhook', 'pull'], default: 'webhook', description: '`pull` comes later.' })
  @Optional()
  @Must(aServedMode)
  mode?: 'webhook' | 'pull';

  @ApiProperty({
    type: [String],
    example: ['urn:ekp:events/*'],
    description: `Types of messages, at most ${MAX_TYPES}; \`*\` stands for any characters.`,
  })
  @Must(listOf(1, MAX_TYPES))
  types: string[];

  @ApiProperty({
    example: 'https://example.com/webhooks',
    description:
      'Public, unless EGRESS_ALLOW permits more. Kept encrypted; its path and query are shown to admins only.',
  })
  @Must(aText)
  url: string;

  @ApiPropertyOptional({ default: true, description: 'Deliveries of a key keep their order.' })
  @Optional()
  @IsBoolean({ message: 'must be true or false' })
  ordered?: boolean;

  @ApiPropertyOptional({
    minimum: 1,
    maximum: MAX_LISTENER_LANES,
    default: 16,
    description:
      'Most deliveries in flight to it, over all replicas, and at most 100 of one replica. Cannot be changed later.',
  })
  @Optional()
  @Must(wholeFrom(1, MAX_LISTENER_LANES))
  lanes?: number;

  @ApiPropertyOptional({
    default: '15s',
    description: 'For the whole call; 1s to 60s, and at least 10s less than OUTBOX_LEASE.',
  })
  @Optional()
  @Must(aTimeout)
  timeout?: string;

  @ApiPropertyOptional({
    type: [String],
    default: RETRY_SCHEDULE,
    description:
      'The wait before each further attempt (+0–20 %); after the last one a delivery is a dead letter.',
  })
  @Optional()
  @Must(listOf(1, MAX_RETRIES))
  retrySchedule?: string[];

  @ApiPropertyOptional({
    type: [Number],
    default: [],
    example: [400, 403],
    description: 'Answers after which a delivery is not retried.',
  })
  @Optional()
  @Must(listOf(0, MAX_STATUSES))
  terminalStatuses?: number[];

  @ApiPropertyOptional({ description: 'Over all replicas.' })
  @Optional()
  @Must(aRateLimit)
  @ValidateNested()
  @Type(() => RateLimit)
  rateLimit?: RateLimit;

  @ApiPropertyOptional({
    type: 'object',
    additionalProperties: { type: 'string' },
    example: { 'X-Tenant': 'blue' },
    description: 'Sent with every delivery. Kept encrypted; shown to admins only.',
  })
  @Optional()
  @Must(anObject)
  headers?: Record<string, string>;

  @ApiPropertyOptional({ enum: ['standard', 'cloudevents'], default: 'standard' })
  @Optional()
  @IsIn(['standard', 'cloudevents'], { message: 'must be "standard" or "cloudevents"' })
  format?: 'standard' | 'cloudevents';

  @ApiPropertyOptional({
    enum: ['skip', 'hold'],
    default: 'skip',
    description: '`hold`: deliveries of the key wait behind its dead letter.',
  })
  @Optional()
  @IsIn(['skip', 'hold'], { message: 'must be "skip" or "hold"' })
  onDead?: 'skip' | 'hold';

  @ApiPropertyOptional({
    description: 'The listener is disabled after this number of answers with this status in a row.',
  })
  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => DisableAfter)
  disableAfter?: DisableAfter;
}

function aServedMode(value: unknown): string | undefined {
  if (value === 'pull') return 'cannot be "pull" yet; use "webhook"';
  return value === 'webhook' ? undefined : 'must be "webhook"';
}

function aRateLimit(value: unknown): string | undefined {
  const fault = anObject(value);
  if (fault) return fault;
  const { perSecond, perKey } = value as RateLimit;
  return perSecond === undefined && perKey === undefined ? 'must have perSecond, perKey or both' : undefined;
}

function aTimeout(value: unknown): string | undefined {
  return durationFrom(1_000, MAX_TIMEOUT_MS)(value);
}
