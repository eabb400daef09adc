import type { PipeTransform, Type } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { type ValidationError, validate } from 'class-validator';
import { pointerTo } from './pointer.ts';
import { type FieldFault, faultyFields, Problem } from './problems.ts';

/** More than any list or object of ours may have; what is beyond was too much for any rule anyway. */
const MAX_LOOKED_AT = 1_000;

/** `@Body(validBody(PutListener))`: an instance that obeys its decorators, or a 422 that names every fault. */
export function validBody<T extends object>(type: Type<T>): PipeTransform<unknown, Promise<T>> {
  return { transform: (value) => validated(type, value) };
}

export async function validated<T extends object>(type: Type<T>, value: unknown): Promise<T> {
  if (value === undefined) throw new Problem('malformed-json', 'The body is empty.');
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Problem('invalid', 'The body must be a JSON object.', {
      errors: [{ pointer: '', detail: 'must be an object' }],
    });
  }
  const errors: FieldFault[] = [];
  const instance = plainToInstance(type, harmless(value, '', errors));
  const faults = await validate(instance, {
    whitelist: true,
    forbidNonWhitelisted: true,
    forbidUnknownValues: true,
  });
  errors.push(...faults.flatMap((fault) => fieldFaults(fault, '')));
  if (errors.length === 0) return instance;
  throw faultyFields(errors);
}

/**
 * What the libraries can be given: class-transformer passes over a field named `toString` and throws a TypeError at a
 * nested one named `constructor`; class-validator takes seconds for 20,000 unknown fields, and nothing else runs then.
 */
function harmless(value: unknown, pointer: string, faults: FieldFault[]): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const items = value.slice(0, MAX_LOOKED_AT);
    return items.map((item, index) => harmless(item, `${pointer}/${index}`, faults));
  }
  const entries = Object.entries(value).slice(0, MAX_LOOKED_AT);
  const own = entries.filter(([name]) => !(name in Object.prototype));
  for (const [name] of entries) {
    if (name in Object.prototype)
      faults.push({ pointer: pointerTo(pointer, name), detail: 'is not a known field' });
  }
  return Object.fromEntries(
    own.map(([name, member]) => [name, harmless(member, pointerTo(pointer, name), faults)]),
  );
}

export function fieldFaults(fault: ValidationError, parent: string): FieldFault[] {
  const pointer = pointerTo(parent, fault.property);
  const own = Object.entries(fault.constraints ?? {}).map(([rule, message]) => ({
    pointer,
    detail: rule === 'whitelistValidation' ? 'is not a known field' : withoutName(message, fault.property),
  }));
  return [...own, ...(fault.children ?? []).flatMap((child) => fieldFaults(child, pointer))];
}

function withoutName(message: string, property: string): string {
  return message.startsWith(`${property} `) ? message.slice(property.length + 1) : message;
}
