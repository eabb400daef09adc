import { Type } from 'class-transformer';
import { ValidateNested } from 'class-validator';
import { anObject, aText, Must } from '../http/definition-rules.ts';
import { Optional } from '../http/optional.ts';
import { type FieldError, invalidFields } from '../http/problems.ts';
import { validated } from '../http/valid-body.ts';
import { BrokerCredentials, NatsOrigin, RabbitOrigin } from './broker-definition.ts';
import { connectionFaults, type ServerCheck } from './check-broker.ts';
import type { FeedMode, FeedOrigin } from './feed.ts';
import { feedKindOf } from './feed-kinds.ts';
import { missingClient } from './kinds.ts';

/** The types and sources that only the service itself may use. */
const RESERVED = 'urn:sluice:';

function aName(value: unknown): string | undefined {
  const fault = aText(value);
  if (fault) return fault;
  if ((value as string).length > 255) return 'must not be longer than 255 characters';
  return (value as string).startsWith(RESERVED) ? `must not begin with "${RESERVED}"` : undefined;
}

/** An entry of the file. */
class SourceEntry {
  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => NatsOrigin)
  nats?: NatsOrigin;

  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => RabbitOrigin)
  rabbitmq?: RabbitOrigin;

  @Optional()
  @Must(anObject)
  @ValidateNested()
  @Type(() => BrokerCredentials)
  credentials?: BrokerCredentials;

  @Optional()
  @Must(aName)
  type?: string;

  @Optional()
  @Must(aName)
  source?: string;
}

export const SOURCE_FIELDS = ['nats', 'rabbitmq', 'credentials', 'credentialsFile', 'type', 'source'];

/** A stream or queue whose messages go into the inbox. */
export interface SourceDefinition {
  readonly origin: FeedOrigin;
  /** Of messages that are no CloudEvents; undefined: they are refused. */
  readonly type: string | undefined;
  /** The source of these. */
  readonly source: string;
}

/** Throws a Problem that lists every error. */
export async function checkSource(body: unknown, checkServer: ServerCheck): Promise<SourceDefinition> {
  const entry = await validated(SourceEntry, body);
  const { nats, rabbitmq, credentials = {}, type } = entry;
  if (!nats === !rabbitmq)
    throw invalidFields([{ pointer: '', detail: 'must have either "nats" or "rabbitmq"' }]);
  const mode: FeedMode = nats ? 'nats' : 'rabbitmq';
  const errors: FieldError[] = await connectionFaults(
    mode,
    entry as object as Record<string, unknown>,
    checkServer,
  );
  const missing = await missingClient(() => feedKindOf(mode));
  if (missing !== undefined) errors.push({ pointer: `/${mode}`, detail: missing });
  if (errors.length > 0) throw invalidFields(errors);
  const place = nats ? nats.stream : rabbitmq!.queue;
  return {
    origin: nats ? { mode: 'nats', ...nats, credentials } : { mode: 'rabbitmq', ...rabbitmq!, credentials },
    type,
    source: entry.source ?? `${mode}:${place}`,
  };
}
