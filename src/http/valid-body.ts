import type { PipeTransform, Type } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { type ValidationError, validate } from 'class-validator';
import { pointerTo } from './pointer.ts';
import { type FieldError, invalidFields, Problem } from './problems.ts';

/** More entries than any valid list or object has; entries beyond it are ignored, because a size rule fails anyway. */
const MAX_CHECKED = 1_000;

/** `@Body(validBody(PutListener))`: a valid instance of the class, or a 422 that lists every invalid field. */
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
  const errors: FieldError[] = [];
  const instance = plainToInstance(type, sanitized(value, '', errors));
  const violations = await validate(instance, {
    whitelist: true,
    forbidNonWhitelisted: true,
    forbidUnknownValues: true,
  });
  errors.push(...violations.flatMap((violation) => fieldErrors(violation, '')));
  if (errors.length === 0) return instance;
  throw invalidFields(errors);
}

/**
 * Removes what the libraries cannot handle: class-transformer skips a field named `toString` and throws a TypeError at a
 * nested one named `constructor`; class-validator blocks the event loop for seconds with 20,000 unknown fields.
 */
function sanitized(value: unknown, pointer: string, errors: FieldError[]): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const items = value.slice(0, MAX_CHECKED);
    return items.map((item, index) => sanitized(item, `${pointer}/${index}`, errors));
  }
  const entries = Object.entries(value).slice(0, MAX_CHECKED);
  const own = entries.filter(([name]) => !(name in Object.prototype));
  for (const [name] of entries) {
    if (name in Object.prototype)
      errors.push({ pointer: pointerTo(pointer, name), detail: 'is not a known field' });
  }
  return Object.fromEntries(
    own.map(([name, member]) => [name, sanitized(member, pointerTo(pointer, name), errors)]),
  );
}

export function fieldErrors(violation: ValidationError, parent: string): FieldError[] {
  const pointer = pointerTo(parent, violation.property);
  const own = Object.entries(violation.constraints ?? {}).map(([rule, message]) => ({
    pointer,
    detail:
      rule === 'whitelistValidation' ? 'is not a known field' : withoutName(message, violation.property),
  }));
  return [...own, ...(violation.children ?? []).flatMap((child) => fieldErrors(child, pointer))];
}

function withoutName(message: string, property: string): string {
  return message.startsWith(`${property} `) ? message.slice(property.length + 1) : message;
}
