import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { IsIn, ValidateNested } from 'class-validator';
import { anObject, aText, listOf, Must } from '../http/definition-rules.ts';
import { Optional } from '../http/optional.ts';

export const MAX_SERVERS = 10;
const MAX_PEM = 64 * 1024;
const MAX_NAME = 255;
const KAFKA_MECHANISMS = ['plain', 'scram-sha-256', 'scram-sha-512'] as const;

function aPem(value: unknown): string | undefined {
  const fault = textUpTo(MAX_PEM)(value);
  if (fault) return fault;
  return (value as string).includes('-----BEGIN ') ? undefined : 'must be in PEM form';
}

function textUpTo(max: number) {
  return (value: unknown): string | undefined =>
    aText(value) ??
    ((value as string).length > max ? `must not be longer than ${max} characters` : undefined);
}

export class BrokerTls {
  @ApiPropertyOptional({
    description: 'Certificate authorities in PEM form, instead of those of the system.',
  })
  @Optional()
  @Must(aPem)
  ca?: string;

  @ApiPropertyOptional({ description: 'The name in the certificate. Default: the host of the server.' })
  @Optional()
  @Must(textUpTo(MAX_NAME))
  serverName?: string;
}

export class BrokerServers {
  @ApiProperty({
    type: [String],
    minItems: 1,
    maxItems: MAX_SERVERS,
    example: ['nats://nats.example.com:4222'],
    description:
      'Tried in this order. `nats://` or `tls://`, `amqp://` or `amqps://`, `kafka://` or `kafka+ssl://`. Other servers that the broker names are used only with Kafka. Public, unless EGRESS_ALLOW permits more.',
  })
  @Must(listOf(1, MAX_SERVERS))
  servers: string[];

  @ApiPropertyOptional({ description: 'For `tls://`, `amqps://` and `kafka+ssl://`.' })
  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => BrokerTls)
  tls?: BrokerTls;
}

export class NatsTarget extends BrokerServers {
  @ApiProperty({
    example: 'orders.{key}',
    description: '`{key}`, `{type}` and `{source}` stand for those of the message, as one token each.',
  })
  @Must(textUpTo(MAX_NAME))
  subject: string;

  @ApiPropertyOptional({
    example: 'ORDERS',
    description: 'The stream that must acknowledge. Default: the one that takes the subject.',
  })
  @Optional()
  @Must(textUpTo(MAX_NAME))
  stream?: string;
}

export class RabbitTarget extends BrokerServers {
  @ApiPropertyOptional({ default: '', example: 'orders', description: 'Default: the default exchange.' })
  @Optional()
  @Must(textUpTo(MAX_NAME))
  exchange?: string;

  @ApiPropertyOptional({
    default: '{key}',
    example: 'orders.{type}',
    description: '`{key}`, `{type}` and `{source}` stand for those of the message.',
  })
  @Optional()
  @Must(textUpTo(MAX_NAME))
  routingKey?: string;

  @ApiPropertyOptional({ default: '/' })
  @Optional()
  @Must(textUpTo(MAX_NAME))
  vhost?: string;
}

export class KafkaTarget extends BrokerServers {
  @ApiProperty({
    example: 'orders',
    description: 'It must exist. The key of a message decides its partition, as with other clients.',
  })
  @Must(textUpTo(MAX_NAME))
  topic: string;

  @ApiPropertyOptional({
    enum: KAFKA_MECHANISMS,
    default: 'scram-sha-512',
    description: 'Of SASL, if the credentials have a username.',
  })
  @Optional()
  @IsIn(KAFKA_MECHANISMS, { message: `must be ${KAFKA_MECHANISMS.join(', ')}` })
  mechanism?: (typeof KAFKA_MECHANISMS)[number];
}

/** What a source reads. */
export class NatsOrigin extends BrokerServers {
  @Must(textUpTo(MAX_NAME))
  stream: string;

  /** Only messages of these subjects; with the wildcards of NATS. */
  @Optional()
  @Must(textUpTo(MAX_NAME))
  subject?: string;
}

export class RabbitOrigin extends BrokerServers {
  @Must(textUpTo(MAX_NAME))
  queue: string;

  @Optional()
  @Must(textUpTo(MAX_NAME))
  vhost?: string;
}

/** Kept encrypted, and never shown. */
export class BrokerCredentials {
  @ApiPropertyOptional()
  @Optional()
  @Must(textUpTo(1_024))
  username?: string;

  @ApiPropertyOptional()
  @Optional()
  @Must(textUpTo(4_096))
  password?: string;

  @ApiPropertyOptional({ description: 'Only for `nats`.' })
  @Optional()
  @Must(textUpTo(4_096))
  token?: string;

  @ApiPropertyOptional({ description: 'Only for `nats`: the content of a `.creds` file.' })
  @Optional()
  @Must(textUpTo(MAX_PEM))
  creds?: string;

  @ApiPropertyOptional({ description: 'Of the client, in PEM form, with `privateKey`.' })
  @Optional()
  @Must(aPem)
  certificate?: string;

  @ApiPropertyOptional({ description: 'In PEM form.' })
  @Optional()
  @Must(aPem)
  privateKey?: string;
}
