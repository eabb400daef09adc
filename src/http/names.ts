import { Problem } from './problems.ts';

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
