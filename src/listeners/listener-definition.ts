import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { IsBoolean, IsIn, ValidateNested } from 'class-validator';
import { BROKER_MODES, type BrokerMode } from '../brokers/broker.ts';
import { BrokerCredentials, KafkaTarget, NatsTarget, RabbitTarget } from '../brokers/broker-definition.ts';
import {
  anObject,
  aText,
  durationFrom,
  listOf,
  Must,
  numberFrom,
  wholeFrom,
} from '../http/definition-rules.ts';
import { Optional } from '../http/optional.ts';
import { MAX_LISTENER_LANES } from './listener.ts';

export const MAX_TYPES = 50;
export const MAX_RETRIES = 50;
export const MAX_STATUSES = 50;
export const MAX_HEADERS = 50;
export const MAX_TIMEOUT_MS = 60_000;
const MIN_LEASE_MS = 1_000;
export const MAX_LEASE_MS = 12 * 3_600_000;
const MAX_PULL_ATTEMPTS = 1_000;
const MAX_IN_FLIGHT = 20_000;

export const LISTENER_MODES = ['webhook', 'pull', ...BROKER_MODES] as const;

/** The schedule that Standard Webhooks recommends; 75 hours in all. */
export const RETRY_SCHEDULE = ['5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h'];

/** The first minute is well within the duplicate window of a stream. */
export const BROKER_RETRY_SCHEDULE = ['1s', '5s', '15s', '30s', ...RETRY_SCHEDULE.slice(1)];

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
    type: 'integer',
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
  @ApiProperty({ type: 'integer', minimum: 300, maximum: 599, example: 403 })
  @Must(wholeFrom(300, 599))
  status: number;

  @ApiProperty({ type: 'integer', minimum: 1, maximum: 10_000, example: 10 })
  @Must(wholeFrom(1, 10_000))
  times: number;
}

/** The body of a PUT, or an entry of LISTENERS_FILE; stored as given. Elements of lists are checked by `elementFaults`. */
export class ListenerDefinition {
  @ApiPropertyOptional({
    enum: LISTENER_MODES,
    default: 'webhook',
    description:
      '`pull`: a work queue; consumers fetch the messages with `POST …/pull`. `nats`, `rabbitmq`, `kafka`: published to that broker. Can be changed when nothing is pending.',
  })
  @Optional()
  @IsIn(LISTENER_MODES, { message: `must be ${quotedList(LISTENER_MODES)}` })
  mode?: 'webhook' | 'pull' | BrokerMode;

  @ApiProperty({
    type: [String],
    minItems: 1,
    maxItems: MAX_TYPES,
    example: ['urn:ekp:events/*'],
    description: 'Types of messages; `*` matches any characters.',
  })
  @Must(listOf(1, MAX_TYPES))
  types: string[];

  @ApiPropertyOptional({
    example: 'https://example.com/webhooks',
    description:
      'Required for webhooks. Public, unless EGRESS_ALLOW permits more. Kept encrypted; its path and query are shown to admins only.',
  })
  @Optional()
  @Must(aText)
  url?: string;

  @ApiPropertyOptional({ description: 'Required for the mode `nats`: the stream to publish to.' })
  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => NatsTarget)
  nats?: NatsTarget;

  @ApiPropertyOptional({ description: 'Required for the mode `rabbitmq`: the exchange to publish to.' })
  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => RabbitTarget)
  rabbitmq?: RabbitTarget;

  @ApiPropertyOptional({ description: 'Required for the mode `kafka`: the topic to publish to.' })
  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => KafkaTarget)
  kafka?: KafkaTarget;

  @ApiPropertyOptional({
    description:
      'Of a broker. Kept encrypted, and never shown. Left out of a change, they stay, unless the servers change.',
  })
  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => BrokerCredentials)
  credentials?: BrokerCredentials;

  @ApiPropertyOptional({ default: true, description: 'Deliveries of a key keep their order.' })
  @Optional()
  @IsBoolean({ message: 'must be true or false' })
  ordered?: boolean;

  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: MAX_LISTENER_LANES,
    default: 16,
    description:
      'Max deliveries in flight to a webhook, over all replicas, and at most 100 of one replica. Cannot be changed later.',
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
    minItems: 1,
    maxItems: MAX_RETRIES,
    default: RETRY_SCHEDULE,
    description:
      'The wait before each further attempt (+0–20 %); after the last one a delivery is a dead letter. To a broker the first ones are 1s, 5s, 15s and 30s.',
  })
  @Optional()
  @Must(listOf(1, MAX_RETRIES))
  retrySchedule?: string[];

  @ApiPropertyOptional({
    default: '30s',
    description:
      'Only for `pull`: how long a consumer has a message before it is handed out again; 1s to 12h.',
  })
  @Optional()
  @Must(durationFrom(MIN_LEASE_MS, MAX_LEASE_MS))
  lease?: string;

  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: MAX_PULL_ATTEMPTS,
    description:
      'Only for `pull`: how often a message is handed out before it is a dead letter. Default: one more than `retrySchedule` has waits; with more attempts its last wait is repeated.',
  })
  @Optional()
  @Must(wholeFrom(1, MAX_PULL_ATTEMPTS))
  attempts?: number;

  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: MAX_IN_FLIGHT,
    default: 2_000,
    description: 'Only for `pull`: max messages that consumers have at a time, over all replicas.',
  })
  @Optional()
  @Must(wholeFrom(1, MAX_IN_FLIGHT))
  maxInFlight?: number;

  @ApiPropertyOptional({
    type: 'array',
    items: { type: 'integer' },
    maxItems: MAX_STATUSES,
    default: [],
    example: [400, 403],
    description: 'Responses after which a delivery is not retried.',
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
    description: 'The listener is disabled after this number of responses with this status in a row.',
  })
  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => DisableAfter)
  disableAfter?: DisableAfter;
}

export function quotedList(words: readonly string[]): string {
  const quoted = words.map((word) => `"${word}"`);
  return quoted.length < 2 ? quoted.join('') : `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
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
