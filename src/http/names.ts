import { applyDecorators } from '@nestjs/common';
import { ApiParam, ApiResponse } from '@nestjs/swagger';
import { Problem } from './problems.ts';
import { TEXT } from './schema.ts';

/** The form of a name that callers choose and that is part of a path. */
export const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;
export const NAME_FORM = '1 to 63 letters, digits, ".", "_" or "-", starting with a letter or a digit';

/** Check this before a lookup: no resource has an invalid name, and PostgreSQL rejects a NUL. */
export function isName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value);
}

/** Throws a 422 problem for a name that a resource cannot be created with. */
export function rejectBadName(name: string): void {
  if (!isName(name)) throw new Problem('invalid', `The name must be ${NAME_FORM}.`);
}

/** Documents the name in the path, and the 404 if nothing of its kind has this name. */
export function ApiName(parameter: string, kind: string, example: string): ClassDecorator & MethodDecorator {
  return applyDecorators(
    ApiParam({ name: parameter, example, description: `The name of the ${kind}.` }),
    ApiResponse({ status: 404, description: `No ${kind} has this name.` }),
  );
}

/** Documents a name in the path that the request may choose. */
export function ApiNewName(parameter: string, example: string): MethodDecorator {
  const schema = { ...TEXT, pattern: NAME.source, example };
  return ApiParam({ name: parameter, schema, description: NAME_FORM });
}
