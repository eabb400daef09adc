import type { Type } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { getMetadataStorage, validateSync } from 'class-validator';
import type { PayloadClass } from '../../contract/denormalizer.ts';
import type { Message } from '../../contract/message.ts';
import { Refuse } from '../../contract/outcomes.ts';
import { fieldErrors } from '../../http/valid-body.ts';
import type { ClaimedMessage } from '../inbox-queue.ts';

/** The message as denormalizers see it; its payload parsed, not yet checked against a class. */
export function messageOf(row: ClaimedMessage): Message {
  return {
    id: row.id,
    source: row.source,
    type: row.type,
    key: row.key,
    payload: JSON.parse(row.payload),
    headers: row.headers ?? {},
    occurredAt: row.occurred_at ?? undefined,
    receivedAt: row.received_at,
    attempt: row.attempt,
  };
}

/**
 * The payload as an instance of the declared class, or Refuse with every fault. Members without a rule are not passed to the
 * libraries and stay as they are: class-transformer would copy them deeply, and both libraries fail on one named `constructor`.
 */
export function withPayloadOf(message: Message, payloadClass: PayloadClass | undefined): Message {
  const type = classFor(message.type, payloadClass);
  if (!type) return message;
  const plain = message.payload;
  if (typeof plain !== 'object' || plain === null || Array.isArray(plain)) {
    throw new Refuse(`the payload is not an object, so not a ${type.name}`);
  }
  const ruled = ruledMembers(type);
  const members = Object.entries(plain);
  const payload = checked(type, Object.fromEntries(members.filter(([name]) => ruled.has(name))));
  for (const [name, value] of members) {
    if (ruled.has(name)) continue;
    Object.defineProperty(payload, name, { value, enumerable: true, writable: true, configurable: true });
  }
  return { ...message, payload };
}

export function classFor(type: string, payloadClass: PayloadClass | undefined): Type<object> | undefined {
  return typeof payloadClass === 'function' ? payloadClass : payloadClass?.[type];
}

function checked(type: Type<object>, plain: object): object {
  const instance = instanceOf(type, plain);
  const faults = validateSync(instance, { forbidUnknownValues: true });
  if (faults.length === 0) return instance;
  const list = faults
    .flatMap((fault) => fieldErrors(fault, ''))
    .map(({ pointer, detail }) => `${pointer} ${detail}`);
  throw new Refuse(`the payload is not a ${type.name}: ${list.join('; ')}`);
}

function instanceOf(type: Type<object>, plain: object): object {
  try {
    return plainToInstance(type, plain);
  } catch (error) {
    throw new Refuse(`the payload cannot be converted to ${type.name}: ${(error as Error).message}`);
  }
}

const known = new WeakMap<Type<object>, ReadonlySet<string>>();

/** The members with a class-validator decorator. */
function ruledMembers(type: Type<object>): ReadonlySet<string> {
  const names = known.get(type) ?? new Set(rulesOf(type).map(({ propertyName }) => propertyName));
  known.set(type, names);
  return names;
}

export function hasRules(type: Type<object>): boolean {
  return rulesOf(type).length > 0;
}

function rulesOf(type: Type<object>) {
  return getMetadataStorage().getTargetValidationMetadatas(type, '', false, false);
}
