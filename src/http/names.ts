import { Problem } from './problems.ts';

/** What a thing that callers name, and that has its name in its path, may be called. */
export const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;
export const NAME_FORM = '1 to 63 letters, digits, ".", "_" or "-", the first a letter or a digit';

/** What cannot be a name is none that exists; PostgreSQL would not even take a NUL. */
export function isName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value);
}

/** For a thing that is made under this name. */
export function refuseBadName(name: string): void {
  if (!isName(name)) throw new Problem('invalid', `The name must be ${NAME_FORM}.`);
}
